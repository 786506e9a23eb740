"""The search's progress, kept up verdict by verdict."""

from dataclasses import dataclass, field
from typing import Final

from kernelarc_guard.model import Model
from kernelarc_mcp.dashboard.gauges import Gauged
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.reporting.progress import held_seconds, over_seed
from kernelarc_mcp.reporting.thinning import thinned


class Mark(Model):
    """One candidate that was confirmed beside the seed."""

    submission: str
    agent: str
    verdict: str
    judged: int
    """Verdicts up to and with this one."""
    device_seconds: float
    over_seed: float


class Curve(Model):
    """What the two progress charts draw; of long searches a part, the extremes among it."""

    judged: int
    """Verdicts so far."""
    device_seconds: float
    steps: list[tuple[int, float, float]]
    """Verdicts, device seconds and the best standing record's speedup, where that changed."""
    confirmed: list[Mark]
    confirmed_in_all: int


MOST_CONFIRMED: Final = 2_000
MOST_STEPS: Final = 1_000


@dataclass
class _Kept:
    """When a submission was kept."""

    submission: str
    judged: int
    device_seconds: float


@dataclass
class Progress:
    """Follows one campaign; each look reads only the verdicts that came since."""

    campaign: Campaign
    gauged: Gauged = field(default_factory=Gauged)
    """What the device showed meanwhile."""
    _seen: int = 0
    _judged: int = 0
    _seconds: float = 0.0
    _kept: list[_Kept] = field(default_factory=list)
    _confirmed: list[Mark] = field(default_factory=list)

    def advance(self, state: CampaignState, most: int = -1) -> bool:
        """Read at most so many of the verdicts that came since; say whether that was all of them."""
        rows = self._settled(state.seq, most)
        for seq, ticket in rows:
            self._add(state.attempts[ticket])
            self._seen = seq
        return len(rows) != most

    def look(self, state: CampaignState) -> Curve:
        """Return the curve as it is at `state`, which must be the journal's newest."""
        self.advance(state)
        return Curve(
            judged=self._judged,
            device_seconds=round(self._seconds, 3),
            steps=thinned(self._steps(state), MOST_STEPS, lambda step: step[2]),
            confirmed=thinned(self._confirmed, MOST_CONFIRMED, lambda mark: mark.over_seed),
            confirmed_in_all=len(self._confirmed),
        )

    def _add(self, attempt: Attempt) -> None:
        self._judged += 1
        self._seconds += held_seconds(attempt)
        for result in (attempt.screen, attempt.confirmation):
            if result is not None:
                self.gauged.add(result.device_states)
        if attempt.verdict == "KEEP":
            self._kept.append(_Kept(attempt.ticket, self._judged, self._seconds))
        own = over_seed(attempt)
        if own is not None:
            self._confirmed.append(
                Mark(
                    submission=attempt.ticket,
                    agent=attempt.agent,
                    verdict=attempt.verdict or "",
                    judged=self._judged,
                    device_seconds=round(self._seconds, 3),
                    over_seed=own,
                )
            )

    def _steps(self, state: CampaignState) -> list[tuple[int, float, float]]:
        """Return where the best record changed; one that was withdrawn later never counted."""
        standing = {step.ticket: step.speedup for step in state.records if not step.withdrawn}
        steps = [(0, 0.0, 1.0)]
        for kept in self._kept:
            own = standing.get(kept.submission, 0.0)
            if own > steps[-1][2]:
                steps.append((kept.judged, round(kept.device_seconds, 3), own))
        return steps

    def _settled(self, newest: int, most: int) -> list[tuple[int, str]]:
        return self.campaign.journal.ledger.connection.execute(
            "SELECT seq, submission FROM event WHERE kind = 'settled' AND seq > ? AND seq <= ?"
            " ORDER BY seq LIMIT ?",
            [self._seen, newest, most],
        ).fetchall()
