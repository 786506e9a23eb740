"""From what CUPTI recorded of a call to a timeline, and what it comes to in one sentence; pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from kernelarc_guard.kernel_names import bare_name
from kernelarc_guard.timeline_model import Activity, Launch, Part, Recorded, Timeline

MOST_PARTS: Final = 12
"""Of a timeline; where there are more, activities of one name become one part, then the shortest go."""
_BUSY: Final = 0.6
"""Less of the span in activities than this is time between them."""
_MAIN: Final = 0.8
"""One activity with more of the busy time than this is what there is to improve."""
_MOVES: Final = 0.3
_OVERLAP: Final = 1.05


def launching(activities: Iterable[Activity], calls: Iterable[Launch]) -> list[Launch]:
    """Return the calls that launched one of the activities, by correlation id, in order; each once.

    The runtime's call and the driver's within it may have the same id: the outer one is taken.
    """
    wanted = {one.correlation for one in activities}
    found: dict[int, Launch] = {}
    for call in sorted(calls, key=lambda one: (one.begin, -one.end)):
        if call.correlation in wanted:
            found.setdefault(call.correlation, call)
    return list(found.values())


def timeline_of(plain: Recorded, behind: Recorded | None) -> Timeline:
    """Return the timeline of a call, of the one queued ahead where that could be.

    `plain` was launched on an idle device, `behind` is the same call behind a kernel that kept the
    device busy.
    """
    shown = behind if behind is not None and behind.queued else plain
    ordered = sorted(shown.activities, key=lambda one: (one.begin, one.end))
    runs = _merged(ordered)
    span = _us(runs[-1][1] - runs[0][0]) if runs else 0.0
    busy = _us(sum(end - begin for begin, end in runs))
    gaps = [_us(later[0] - earlier[1]) for earlier, later in pairwise(runs)]
    parts = _parts(ordered)
    return Timeline(
        queued=shown.queued,
        span_us=span,
        busy_us=busy,
        kernels=_count(ordered, "kernel"),
        copies=_count(ordered, "copy"),
        fills=_count(ordered, "fill"),
        launches=len({one.correlation for one in ordered}),
        streams=len({one.stream for one in ordered}),
        largest_gap_us=max(gaps, default=0.0),
        overhead_us=_overhead(plain),
        plain_span_us=_span(plain),
        host_us=_us(max(0, plain.returned - plain.began)),
        parts=_bounded(parts),
        left_out=shown.left_out,
        said=diagnosis(ordered, span, busy, queued=shown.queued),
    )


def diagnosis(activities: Sequence[Activity], span: float, busy: float, *, queued: bool) -> str:
    """Return in one sentence what a call's activities come to; `span` and `busy` in microseconds."""
    if not activities:
        return "The call launched nothing on the device."
    what, share = _counted(activities), busy / span if span else 1.0
    if share < _BUSY:
        why = "fuse them" if queued else "the host launches too late, or waits in between"
        return f"Launch-bound: {what}, busy {100 * share:.0f} % of the span; {why}."
    if len(activities) == 1:
        return f"One {activities[0].kind} is the whole call."
    by_name: dict[str, int] = {}
    for one in activities:
        by_name[one.name] = by_name.get(one.name, 0) + one.end - one.begin
    whole = sum(by_name.values())
    if not whole:
        return f"{what.capitalize()}, too short to be timed."
    moved = sum(one.end - one.begin for one in activities if one.kind != "kernel")
    name = max(by_name, key=lambda one: by_name[one])
    most = by_name[name] / whole
    launches = sum(one.name == name for one in activities)
    if moved >= _MOVES * whole:
        return f"Copies and fills take {100 * moved / whole:.0f} % of the time in {what}."
    if most >= _MAIN:
        kind = next(one.kind for one in activities if one.name == name)
        taker = f"one {kind} takes" if launches == 1 else f"{launches} launches of one {kind} take"
        return f"Of {what} {taker} {100 * most:.0f} %, {bare_name(name)}."
    if _us(whole) > _OVERLAP * busy:
        return f"{what.capitalize()}, in part at the same time: {_us(whole):.1f} us of work in {busy:.1f}."
    return f"{what.capitalize()}, busy {100 * share:.0f} % of the span; the longest takes {100 * most:.0f} %."


def _counted(activities: Sequence[Activity]) -> str:
    """Return how many of each kind there are: `9 kernels and 1 copy`."""
    plural = {"kernel": "kernels", "copy": "copies", "fill": "fills"}
    counts = [(kind, sum(one.kind == kind for one in activities)) for kind in plural]
    said = [f"{count} {kind if count == 1 else plural[kind]}" for kind, count in counts if count]
    return ", ".join(said[:-1]) + (" and " if said[1:] else "") + said[-1]


def _merged(ordered: Iterable[Activity]) -> list[tuple[int, int]]:
    """Return when at least one activity was under way: intervals that do not touch, in order."""
    found: list[tuple[int, int]] = []
    for one in ordered:
        if found and one.begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], one.end))
        else:
            found.append((one.begin, one.end))
    return found


def _overhead(plain: Recorded) -> float | None:
    """Return what passes from the first launching call to the first activity; None where unknown."""
    if not plain.launches or not plain.activities:
        return None
    first = min(one.begin for one in plain.activities)
    return _us(max(0, first - min(one.begin for one in plain.launches)))


def _span(recorded: Recorded) -> float | None:
    if not recorded.activities:
        return None
    begin = min(one.begin for one in recorded.activities)
    return _us(max(one.end for one in recorded.activities) - begin)


def _parts(ordered: Sequence[Activity]) -> list[Part]:
    """Return the activities in order, those of one name that follow each other as one."""
    parts: list[Part] = []
    streams: dict[int, int] = {}
    begin = ordered[0].begin if ordered else 0
    until = begin
    before: tuple[object, ...] = ()
    for one in ordered:
        stream = streams.setdefault(one.stream, len(streams))
        took, gap = _us(one.end - one.begin), _us(max(0, one.begin - until))
        until = max(until, one.end)
        same = one.name, stream, one.grid
        if same == before:
            parts[-1] = _joined(parts[-1], 1, took)
            continue
        before = same
        parts.append(
            Part(
                name=bare_name(one.name),
                kind=one.kind,
                at_us=_us(one.begin - begin),
                us=took,
                gap_us=gap,
                stream=stream,
                grid=one.grid,
                block=one.block,
            )
        )
    return parts


def _bounded(parts: list[Part]) -> list[Part]:
    """Return at most so many parts: by name where there are more, and of these the longest."""
    if len(parts) <= MOST_PARTS:
        return parts
    named: dict[tuple[str, str], Part] = {}
    for one in parts:
        key = one.kind, one.name
        named[key] = _joined(named[key], one.count, one.us) if key in named else one
    longest = sorted(named.values(), key=lambda one: -one.us)[:MOST_PARTS]
    return sorted(longest, key=lambda one: one.at_us)


def _joined(part: Part, count: int, took: float) -> Part:
    return part.model_copy(update={"count": part.count + count, "us": round(part.us + took, 3)})


def _count(activities: Iterable[Activity], kind: str) -> int:
    return sum(one.kind == kind for one in activities)


def _us(nanoseconds: int) -> float:
    return round(nanoseconds / 1e3, 3)
