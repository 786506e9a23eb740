"""What a campaign on a fleet used its devices for, from its ledger; and how one with more of them compares."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from statistics import median
from typing import Any, Final

from benchmarks.campaign_time import results
from kernelarc_guard.protocol import Result
from kernelarc_guard.solution_model import NATIVE_LANGUAGES
from kernelarc_mcp.host.events import (
    Event,
    Interrupted,
    Judging,
    Screened,
    Settled,
    Submitted,
)

Row = dict[str, Any]
MEASURING: Final = "measuring"
PARTS: Final = (MEASURING, "smoke", "correctness", "held otherwise", "not held")
"""Of the seconds that guards were at work. `not held`: policy, builds, opening, waiting for the device."""
FOUND_SECONDS: Final = 0.1
"""A build stage that took less compiled nothing."""
SETTLED_SECONDS: Final = 0.1
"""A verdict that comes no later after a device's answer may be that answer's own."""
_COMPILED: Final = re.compile(r"Triton: [1-9]\d* kernels? compiled before the first run")
_STAGE_OF: Final = {"timing": MEASURING, "smoke": "smoke", "correctness": "correctness"}


def account(events: Sequence[Event], devices: int) -> Row:
    """Return rates, shares and waits from the first submission to the last verdict.

    What ended before the first submission (calibration, lines to beat) is left out.
    """
    at = [datetime.fromisoformat(event.at).timestamp() for event in events]
    submitted = {
        e.submission: t for e, t in zip(events, at, strict=True) if isinstance(e.body, Submitted)
    }
    ends = [t for e, t in zip(events, at, strict=True) if isinstance(e.body, Settled)]
    if not submitted or not ends:
        return {"verdicts": 0, "submissions": len(submitted)}
    begin, end = min(submitted.values()), max(ends)
    seconds = max(end - begin, 1e-9)
    judged = [
        (since, kind, result)
        for event, kind, result in results(events)
        if 0 < (since := datetime.fromisoformat(event.at).timestamp() - begin) <= seconds
    ]
    units = _units([result for _, _, result in judged], seconds)
    waits = _waits(events, at, submitted)
    settled = [event.body for event in events if isinstance(event.body, Settled)]
    held = sum(unit["held"] for unit in units.values())
    return {
        "submissions": len(submitted),
        "verdicts": len(settled),
        "seconds": round(seconds, 2),
        "verdicts an hour": round(3600 * len(settled) / seconds, 1),
        "verdict at": [round(one - begin, 2) for one in sorted(ends)],
        "first answer": _firsts(judged),
        "units": units,
        "share held": round(held / (devices * seconds), 4),
        "share measuring": round(
            sum(unit[MEASURING] for unit in units.values()) / (devices * seconds), 4
        ),
        "device seconds a verdict": round(held / len(settled), 3),
        "kinds": _kinds([(kind, result) for _, kind, result in judged]),
        "builds": (builds := _builds(events, begin, end)),
        "builds a second": round(builds / seconds, 3),
        "ahead": _ahead(events, begin, end),
        "queue wait": {
            "median": round(median(waits), 2),
            "largest": round(max(waits), 2),
        }
        if waits
        else {},
        "outcomes": dict(Counter(f"{one.verdict} {one.reason}" for one in settled)),
        "cut": dict(Counter(e.body.cause for e in events if isinstance(e.body, Interrupted))),
    }


def scaling(one: Row, many: Row, devices: int, base: int = 1) -> Row:
    """Compare a campaign on `devices` with the same one on `base` of them, over as many verdicts as both have.

    The last ones, in which some devices have nothing more to do, are left out: one less than devices. `factor` is against linear: 1 means that twice the devices judged twice as fast. Without cuts it is about
    `held as long` (each device) over `cost of a verdict` (device seconds). `warm` is the same from when every device has given its first answer; a
    device that joins imports torch and opens the problem before that, which the calibration has done for one of them. None where a device gave none.
    It flatters a little: the other devices are in the middle of their judgements then.
    """
    cold = _against_linear(one["verdict at"], many["verdict at"], devices, base)
    if cold is None:
        return {"verdicts": 0}
    warm = _against_linear(_once_warm(one, base), _once_warm(many, devices), devices, base)
    return {
        **cold,
        "warm": warm,
        "held as long": round(many["share held"] / one["share held"], 3),
        "cost of a verdict": round(
            many["device seconds a verdict"] / one["device seconds a verdict"], 3
        ),
    }


def _against_linear(
    one: Sequence[float], many: Sequence[float], devices: int, base: int
) -> Row | None:
    """Compare when verdicts came; None where there are too few."""
    common = min(len(one), len(many)) - devices + 1
    if common < 1:
        return None
    first, then = one[common - 1], many[common - 1]
    factor = round(base * first / (devices * then), 3)
    return {"verdicts": common, "seconds": [first, then], "factor": factor}


def _once_warm(run: Row, devices: int) -> list[float]:
    """Return when verdicts came after every device had given its first answer, and since then; empty: one has not."""
    firsts = run.get("first answer", {})
    if len(firsts) < devices:
        return []
    begin = max(firsts.values())
    return [round(at - begin, 2) for at in run["verdict at"] if at > begin + SETTLED_SECONDS]


def _firsts(judged: Sequence[tuple[float, str, Result]]) -> dict[str, float]:
    """Return after how many seconds each device gave its first answer."""
    found: dict[str, float] = {}
    for since, _, result in judged:
        if result.lease is not None:
            found.setdefault(result.lease.unit or result.lease.device, round(since, 2))
    return found


def _units(judged: Sequence[Result], seconds: float) -> dict[str, Row]:
    """Return what each device was used for; answers that never held one are under an empty name."""
    found: dict[str, Row] = {}
    for result in judged:
        lease = result.lease
        name = "" if lease is None else lease.unit or lease.device
        unit = found.setdefault(name, {"answers": 0, "held": 0.0, **dict.fromkeys(PARTS, 0.0)})
        held = 0.0 if lease is None else (lease.to_ns - lease.from_ns) / 1e9
        unit["answers"] += 1
        unit["held"] += held
        inside = 0.0
        for stage, part in _STAGE_OF.items():
            unit[part] += (spent := _stage(result, stage))
            inside += spent
        unit["held otherwise"] += max(held - inside, 0.0)
        unit["not held"] += max(result.seconds - held, 0.0)
    for name, unit in found.items():
        if name:
            unit["idle"] = max(seconds - unit["held"] - unit["not held"], 0.0)
        for key, value in unit.items():
            unit[key] = round(value, 2)
    return dict(sorted(found.items()))


def _kinds(judged: Sequence[tuple[str, Result]]) -> dict[str, Row]:
    """Return how often a device was asked for what, and for how long it was held."""
    found: dict[str, Row] = {}
    for kind, result in judged:
        row = found.setdefault(kind, {"count": 0, "held": 0.0, MEASURING: 0.0})
        row["count"] += 1
        if result.lease is not None:
            row["held"] += (result.lease.to_ns - result.lease.from_ns) / 1e9
        row[MEASURING] += _stage(result, "timing")
    return {
        kind: {key: round(value, 2) for key, value in row.items()} for kind, row in found.items()
    }


def _waits(
    events: Sequence[Event], at: Sequence[float], submitted: dict[str, float]
) -> list[float]:
    """Return how long each submission waited for its first claim."""
    claimed: dict[str, float] = {}
    for event, time in zip(events, at, strict=True):
        if isinstance(event.body, Judging):
            claimed.setdefault(event.submission, time)
    return [time - submitted[name] for name, time in claimed.items() if name in submitted]


def _builds(events: Sequence[Event], begin: float, end: float) -> int:
    """Return how many candidates in compiled languages were judged, whoever has built them."""
    compiled = {
        event.submission
        for event in events
        if isinstance(event.body, Submitted) and event.body.proposal.language in NATIVE_LANGUAGES
    }
    return sum(
        isinstance(event.body, Screened)
        and event.submission in compiled
        and begin < datetime.fromisoformat(event.at).timestamp() <= end
        for event in events
    )


def _ahead(events: Sequence[Event], begin: float, end: float) -> Row:
    """Return how many candidates that ran had something to compile, by kind, and how many found it compiled."""
    found: Row = dict.fromkeys(("Triton", "Triton found", "native", "native found"), 0)
    wrote = {e.submission: e.body for e in events if isinstance(e.body, Submitted)}
    for event in events:
        body = event.body
        if not isinstance(body, Screened):
            continue
        result, own = body.result, wrote[event.submission]
        inside = begin < datetime.fromisoformat(event.at).timestamp() <= end
        if not inside or not _stage(result, "smoke"):
            continue
        if own.proposal.language in NATIVE_LANGUAGES:
            found["native"] += 1
            found["native found"] += _stage(result, "build") < FOUND_SECONDS
        elif "triton" in (own.proposal.language, own.found_dsl):
            found["Triton"] += 1
            found["Triton found"] += any(_COMPILED.match(said.message) for said in result.build)
    return found


def _stage(result: Result, stage: str) -> float:
    return next((report.seconds for name, report in result.stages.items() if name == stage), 0.0)
