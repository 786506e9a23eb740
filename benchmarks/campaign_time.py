"""Where a campaign's wall time went, from its rows: measuring, building, checking, waiting for agents.

    python -m benchmarks.campaign_time DIR

Needs no device: the guard's results carry the seconds of each stage and when the device was held.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from kernelarc_guard.protocol import Result
from kernelarc_guard.reasons import Stage
from kernelarc_mcp.host.events import (
    Baselined,
    Calibrated,
    Canary,
    Confirmed,
    Created,
    Event,
    Remeasured,
    Screened,
    Settled,
    SpreadUpdated,
    Submitted,
    read,
)
from kernelarc_mcp.host.ledger import Ledger

Span = tuple[float, float]
"""Seconds since the campaign was created: from, to."""
Second = Callable[[Event], float]
"""When an event was, in such seconds."""
_STAGES: tuple[Stage, ...] = ("policy", "build", "smoke", "correctness", "timing")


@dataclass(frozen=True)
class Share:
    """One part of the wall time."""

    what: str
    seconds: float
    count: int | None = None


@dataclass(frozen=True)
class Spent:
    """What became of a campaign's time."""

    wall: float
    """From its creation to its last row."""
    first: float
    """When the first submission was claimed or refused: what was before is the start."""
    device_held: float
    measuring: float
    """In the stage `timing`: pairs, their processes, calls and checks."""
    in_windows: float
    """Inside timed windows."""
    settled: int
    verdicts: dict[str, int]
    reasons: dict[str, int]
    parts: list[Share]

    @property
    def per_hour(self) -> float:
        """Return the verdicts per hour of the whole campaign."""
        return 3600 * self.settled / self.wall if self.wall else 0.0

    @property
    def per_hour_after_start(self) -> float:
        """Return the verdicts per hour since the campaign judges."""
        left = self.wall - self.first
        return 3600 * self.settled / left if left > 0 else 0.0


def read_events(folder: Path) -> list[Event]:
    """Return a campaign's rows."""
    ledger = Ledger.open_read_only(folder)
    try:
        return [read(row) for row in ledger.rows_after(0)]
    finally:
        ledger.close()


def spent(events: Sequence[Event], until: float | None = None) -> Spent:
    """Split the wall time of a campaign; `until` (seconds) is its end where that is not its last row."""
    created = events[0]
    if not isinstance(created.body, Created):
        raise ValueError("the first row is no campaign's creation")
    begin = datetime.fromisoformat(created.at)

    def second(event: Event) -> float:
        return (datetime.fromisoformat(event.at) - begin).total_seconds()

    wall = max(second(events[-1]), until or 0.0)
    judged = list(results(events))
    busy = _joined([(max(second(e) - r.seconds, 0.0), second(e)) for e, _, r in judged])
    waiting = _joined(list(_open(events, second, wall)))
    settled = [e for e in events if isinstance(e.body, Settled)]
    stages = {stage: 0.0 for stage in _STAGES}
    kinds: Counter[str] = Counter()
    for _, kind, result in judged:
        kinds[kind] += 1
        for stage in _STAGES:
            if stage in result.stages:
                stages[stage] += result.stages[stage].seconds
    in_guard = sum(result.seconds for _, _, result in judged)
    parts = [
        Share(f"measuring: {kind}", sum(_timing(r) for _, k, r in judged if k == kind), count)
        for kind, count in kinds.items()
    ]
    parts += [Share(stage, stages[stage]) for stage in _STAGES if stage != "timing"]
    parts.append(Share("the guard otherwise", in_guard - sum(stages.values())))
    idle = _outside(busy, wall)
    first = min(
        [
            wall,
            *map(second, settled),
            *(second(e) - r.seconds for e, k, r in judged if k == "screen"),
        ]
    )
    before = [(a, min(b, first)) for a, b in idle if a < first]
    later = [(max(a, first), b) for a, b in idle if b > first]
    parts.append(Share("start: server, guard, nursery", _length(before)))
    parts.append(Share("queue empty: agents think", _length(_minus(later, waiting))))
    parts.append(Share("queued, guard idle: host", _length(_both(later, waiting))))
    leases = [r.lease for _, _, r in judged if r.lease is not None]
    return Spent(
        wall=wall,
        first=first,
        device_held=sum(lease.to_ns - lease.from_ns for lease in leases) / 1e9,
        measuring=stages["timing"],
        in_windows=sum(_windows(result) for _, _, result in judged) / 1e9,
        settled=len(settled),
        verdicts=dict(Counter(e.body.verdict for e in settled if isinstance(e.body, Settled))),
        reasons=dict(
            Counter(
                f"{e.body.verdict} {e.body.reason}" for e in settled if isinstance(e.body, Settled)
            )
        ),
        parts=[part for part in parts if part.seconds > 0.05],
    )


def markdown(found: Spent) -> str:
    """Return the table."""
    lines = ["| where the wall time went | seconds | share | |", "|---|---|---|---|"]
    for part in sorted(found.parts, key=lambda one: -one.seconds):
        share, count = part.seconds / found.wall, f"{part.count} times" if part.count else ""
        lines.append(f"| {part.what} | {part.seconds:.1f} | {share:.1%} | {count} |")
    total = sum(part.seconds for part in found.parts)
    lines.append(f"| all | {total:.1f} of {found.wall:.1f} | {total / found.wall:.1%} | |")
    verdicts = ", ".join(f"{n} {reason}" for reason, n in sorted(found.reasons.items()))
    lines += [
        "",
        f"{found.settled} verdicts in {found.wall:.0f} s: {found.per_hour:.0f} an hour,"
        f" {found.per_hour_after_start:.0f} an hour after the start ({found.first:.0f} s).",
        f"Measuring {found.measuring / found.wall:.1%} of the wall time, device held"
        f" {found.device_held / found.wall:.1%}, inside timed windows {found.in_windows / found.wall:.2%}.",
        "",
        f"{verdicts}.",
    ]
    return "\n".join(lines)


def results(events: Sequence[Event]) -> Iterator[tuple[Event, str, Result]]:
    """Yield the rows that hold an answer of the guard, with what was asked."""
    for event in events:
        body = event.body
        match body:
            case Calibrated():
                yield event, "calibration", body.result
            case Screened():
                yield event, "screen", body.result
            case Confirmed():
                yield event, "confirmation", body.result
            case Baselined(result=Result() as result):
                yield event, "baseline", result
            case SpreadUpdated(result=Result() as result):
                yield event, "a new record's noise", result
            case Canary(result=Result() as result):
                yield event, "canary", result
            case Remeasured(result=Result() as result):
                yield event, "record again", result
            case _:
                pass


def _timing(result: Result) -> float:
    return result.stages["timing"].seconds if "timing" in result.stages else 0.0


def _windows(result: Result) -> int:
    return sum(
        sum(map(sum, block.record)) + sum(map(sum, block.candidate))
        for pair in (*result.pairs, *result.apart)
        for block in pair.blocks
    )


def _open(events: Sequence[Event], second: Second, wall: float) -> Iterator[Span]:
    """Yield when each submission waited for its verdict."""
    begun: dict[str, float] = {}
    for event in events:
        if isinstance(event.body, Submitted):
            begun[event.submission] = second(event)
        elif isinstance(event.body, Settled):
            yield begun.pop(event.submission), second(event)
    for start in begun.values():
        yield start, wall


def _joined(spans: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _outside(spans: Sequence[Span], wall: float) -> list[Span]:
    edges = [0.0, *(edge for span in spans for edge in span), wall]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]


def _both(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    met = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return [(a, b) for a, b in met if b > a]


def _minus(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    found = []
    for a, b in left:
        inside = _both([(a, b)], right)
        edges = [a, *(edge for span in inside for edge in span), b]
        found += [(c, d) for c, d in zip(edges[::2], edges[1::2], strict=True) if d > c]
    return found


def _length(spans: Sequence[Span]) -> float:
    return sum(b - a for a, b in spans)


def main() -> None:
    """Print the table of a campaign's directory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = spent(read_events(options.folder))
    print(json.dumps(asdict(found), indent=1) if options.json else markdown(found))


if __name__ == "__main__":
    main()
