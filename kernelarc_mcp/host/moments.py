"""What a judgement outside the queue was asked with, at any row: others may join while it runs."""

from bisect import bisect_right
from dataclasses import dataclass

from kernelarc_guard.decide import Calibration
from kernelarc_mcp.host.state import CampaignState


@dataclass(frozen=True)
class Moment:
    """What held from one row on."""

    least_stake: float
    calibration: Calibration | None


class Moments:
    """The moments of a campaign, noted row by row."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._moments: list[Moment] = []

    def note(self, state: CampaignState) -> None:
        """Note what holds after the state's newest row."""
        now = Moment(state.least_stake, state.calibration)
        if not self._moments or now != self._moments[-1]:
            self._rows.append(state.seq)
            self._moments.append(now)

    def at(self, seq: int) -> Moment:
        """Return what held after row `seq`; ValueError before the first that was noted."""
        position = bisect_right(self._rows, seq)
        if position == 0:
            raise ValueError(f"nothing was noted up to row {seq}")
        return self._moments[position - 1]
