"""How far a search had come after each verdict."""

from collections.abc import Mapping

from kernelarc_guard.model import Model
from kernelarc_mcp.host.state import Attempt, CampaignState


class Point(Model):
    """One verdict."""

    submission: str
    agent: str
    verdict: str
    judged: int
    """Verdicts up to and with this one."""
    device_seconds: float
    """How long the device had been held for submissions by then."""
    best: float
    """Speedup over the seed of the best record by then that still stands."""
    over_seed: float | None
    """Its own speedup over the seed, where it was confirmed beside it."""


def progress(state: CampaignState) -> list[Point]:
    """Return a point for each verdict, in their order.

    Records that were withdrawn later do not count for `best`: it is what is known now.
    """
    standing = {step.ticket: step.speedup for step in state.records if not step.withdrawn}
    settled = [attempt for attempt in state.attempts.values() if attempt.state == "done"]
    points: list[Point] = []
    for attempt in sorted(settled, key=lambda one: one.settled_seq):
        points.append(point_after(points[-1] if points else None, attempt, standing))
    return points


def point_after(before: Point | None, attempt: Attempt, standing: Mapping[str, float]) -> Point:
    """Return the point of a settled attempt; `standing` are the standing records' speedups."""
    own = standing.get(attempt.ticket, 0.0)
    return Point(
        submission=attempt.ticket,
        agent=attempt.agent,
        verdict=attempt.verdict or "",
        judged=1 if before is None else before.judged + 1,
        device_seconds=(0.0 if before is None else before.device_seconds) + held_seconds(attempt),
        best=max(1.0 if before is None else before.best, own),
        over_seed=over_seed(attempt),
    )


def over_seed(attempt: Attempt) -> float | None:
    """Return a candidate's own speedup over the seed, where it was confirmed beside it."""
    result = attempt.confirmation
    anchored = result.anchored if result is not None else None
    return None if anchored is None else anchored.candidate.ratio


def held_seconds(attempt: Attempt) -> float:
    """Return how long the device was held for the judgements that led to a verdict."""
    leases = [one.lease for one in (attempt.screen, attempt.confirmation) if one is not None]
    return sum(max(0, lease.to_ns - lease.from_ns) for lease in leases if lease is not None) / 1e9
