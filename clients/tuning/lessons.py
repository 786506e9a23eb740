"""Conclusions this tuner writes, and what it reads in those of others. Pure functions.

The prose is for any reader; the last line is for tuners: a win names a whole point, a trap the axis
values that it rules out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kernelfamilies.family import Algorithm, Point, read_tag, tag

SUMMARY_CAP: Final = 160
LESSON_CAP: Final = 1200
UNINFORMATIVE: Final = frozenset({"duplicate", "draft_not_new", "cancelled", "guard_lost"})
"""Reasons that say nothing about the code."""
SHOWN_WORSE: Final = frozenset({"slower", "workload_regressed"})
TIMED: Final = SHOWN_WORSE | {"not_proven_close"}
ANY: Final = "any"
"""Stands for every algorithm: what a compiler refuses, it refuses everywhere."""
_WON: Final = "tuner-point: "
_RULED_OUT: Final = "tuner-rules-out: "


@dataclass(frozen=True)
class Win:
    """A point that somebody proved, with its gain over the record of that time."""

    algorithm: str
    point: Point
    speedup: float


@dataclass(frozen=True)
class Rule:
    """Axis values that failed together."""

    algorithm: str
    values: Point

    def excludes(self, algorithm: str, point: Point) -> bool:
        return self.algorithm in (algorithm, ANY) and all(
            point.get(axis) == value for axis, value in self.values.items()
        )


@dataclass(frozen=True)
class Known:
    """What the memory tells a tuner, newest first."""

    wins: tuple[Win, ...] = ()
    rules: tuple[Rule, ...] = ()

    def excludes(self, algorithm: str, point: Point) -> bool:
        return any(rule.excludes(algorithm, point) for rule in self.rules)


def read_conclusions(conclusions: Iterable[Mapping[str, Any]]) -> Known:
    """Read the tags in the lessons of a memory view; conclusions without one are for people."""
    wins, rules = [], []
    for conclusion in conclusions:
        for line in str(conclusion["lesson"]).splitlines():
            won = line.startswith(_WON) and conclusion["kind"] == "win"
            lost = line.startswith(_RULED_OUT) and conclusion["kind"] == "trap"
            if not (won or lost):
                continue
            values = read_tag(line)
            algorithm = values.pop("algorithm", "")
            if won:
                wins.append(Win(algorithm, values, conclusion.get("speedup") or 1.0))
            elif values:
                rules.append(Rule(algorithm, values))
    return Known(tuple(wins), tuple(rules))


def ruled_out(
    known: Algorithm, point: Point, changed: Iterable[str], reason: str, on_record: bool
) -> Point:
    """Return the values a failure rules out: what was changed, and what its effect depends on.

    A time says something about the change only where the record itself was changed: verdicts
    compare with the record, and a step in the right direction from a slow branch is still slower.
    Otherwise, and where nothing was changed, only this very point is ruled out.
    """
    axes = set(changed)
    timed = reason in TIMED
    if not axes or (timed and not (on_record and reason in SHOWN_WORSE)):
        return dict(point)
    for axis in tuple(axes):
        depends = known.coupled.get(axis, ())
        # A compiler's refusal depends on the target; how fast it runs on all that is coupled.
        axes |= set(depends) if timed else {a for a in depends if a == "target"}
    return {axis: point[axis] for axis in sorted(axes) if axis in point}


def win(algorithm: str, point: Point, changed: Iterable[str], speedup: float) -> tuple[str, str]:
    """Return summary and lesson of a KEEP."""
    moved = ", ".join(f"{axis}={point[axis]}" for axis in changed if axis in point)
    summary = f"{algorithm} with {moved or 'its first choices'}: {speedup:.2f}x the record"
    lesson = (
        f"Confirmed {speedup:.3f} times as fast as the record of that moment. "
        f"Start from this point and vary one axis at a time.\n{_WON}{tag(algorithm, point)}"
    )
    return summary[:SUMMARY_CAP], lesson[:LESSON_CAP]


def trap(
    known: Algorithm,
    point: Point,
    changed: Iterable[str],
    view: Mapping[str, Any],
    on_record: bool,
) -> tuple[str, str]:
    """Return summary and lesson of an informative REJECT or REVERT."""
    reason = str(view["reason"])
    values = ruled_out(known, point, changed, reason, on_record)
    named = ", ".join(f"{axis}={value}" for axis, value in values.items())
    moved = ", ".join(f"{axis}={point[axis]}" for axis in changed)
    summary = f"{known.name}: {reason} with {moved or 'its first choices'}"
    seen = _what_was_seen(view)
    everywhere = reason == "build_failed" and bool(moved)
    machine_line = f"{_RULED_OUT}{tag(ANY if everywhere else known.name, values)}"
    prose = f"{seen} Do not combine {named} {'here' if everywhere else f'in {known.name}'}."
    return summary[:SUMMARY_CAP], f"{prose[: LESSON_CAP - len(machine_line) - 1]}\n{machine_line}"


def _what_was_seen(view: Mapping[str, Any]) -> str:
    for message in view.get("build") or []:
        if message["severity"] == "error":
            return f"The compiler said: {str(message['message'])[:300]}."
    if view.get("speedup"):
        return f"Measured {view['speedup']:.3f} times as fast as the record."
    return str(view.get("detail") or view["reason"])[:400]
