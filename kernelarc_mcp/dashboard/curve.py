"""The search's progress, kept up verdict by verdict."""

from dataclasses import dataclass, field

from kernelarc_guard.model import Model
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.reporting.progress import Point, point_after


class Curve(Model):
    """What the two progress charts draw."""

    judged: int
    """Verdicts so far."""
    device_seconds: float
    steps: list[tuple[int, float, float]]
    """Verdicts, device seconds and the best standing record's speedup, where that changed."""
    confirmed: list[Point]
    """Candidates that were confirmed beside the seed; of many, all KEEPs and the newest."""


MOST_CONFIRMED = 2_000


@dataclass
class _Known:
    """What was read up to row `seen`, with these records withdrawn."""

    withdrawn: list[str]
    seen: int = 0
    last: Point | None = None
    steps: list[tuple[int, float, float]] = field(default_factory=lambda: [(0, 0.0, 1.0)])
    confirmed: list[Point] = field(default_factory=list)


class Progress:
    """Follows one campaign; each look reads only the verdicts that came since."""

    def __init__(self, campaign: Campaign) -> None:
        """Have seen nothing yet."""
        self._campaign = campaign
        self._known = _Known([])

    def look(self, state: CampaignState) -> Curve:
        """Return the curve as it is at `state`, which must be the journal's newest."""
        withdrawn = [step.ticket for step in state.records if step.withdrawn]
        if withdrawn != self._known.withdrawn:
            # A record that fell counts no more, from the beginning on.
            self._known = _Known(withdrawn)
        known = self._known
        standing = {step.ticket: step.speedup for step in state.records if not step.withdrawn}
        for ticket in self._settled(known.seen, state.seq):
            point = point_after(known.last, state.attempts[ticket], standing)
            if point.best != known.steps[-1][2]:
                known.steps.append((point.judged, round(point.device_seconds, 3), point.best))
            if point.over_seed is not None:
                known.confirmed.append(point)
            known.last = point
        known.seen = state.seq
        return Curve(
            judged=0 if known.last is None else known.last.judged,
            device_seconds=0.0 if known.last is None else round(known.last.device_seconds, 3),
            steps=known.steps,
            confirmed=_thinned(known.confirmed),
        )

    def _settled(self, seen: int, newest: int) -> list[str]:
        rows = self._campaign.journal.ledger.connection.execute(
            "SELECT submission FROM event WHERE kind = 'settled' AND seq > ? AND seq <= ? ORDER BY seq",
            [seen, newest],
        ).fetchall()
        return [ticket for (ticket,) in rows]


def _thinned(points: list[Point]) -> list[Point]:
    if len(points) <= MOST_CONFIRMED:
        return points
    newest = {point.submission for point in points[-MOST_CONFIRMED:]}
    return [p for p in points if p.verdict == "KEEP" or p.submission in newest]
