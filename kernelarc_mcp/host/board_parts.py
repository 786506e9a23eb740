"""Parts of the board that briefs, submissions and reports show too."""

from datetime import datetime
from typing import Final

from kernelarc_guard import decide
from kernelarc_guard.canary import LEVEL, exact_interval
from kernelarc_guard.ratios import Ratio
from kernelarc_mcp.host.events import SEED
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.host.watching import recent_canaries
from kernelarc_mcp.noise import calibration_view
from kernelarc_mcp.views import CalibrationView, CanariesView, RatioView, RecordView

P_VALUES: Final = 20
"""A/A canaries whose p-values are shown."""


def record_view(state: CampaignState) -> RecordView:
    """Return the record that stands."""
    step = state.record
    return RecordView(
        submission=step.ticket,
        agent=step.agent,
        speedup=step.speedup,
        over_seed=ratio_view(step.over_seed),
        gain=step.gain,
        lower=step.lower,
        languages=languages_of_record(state, step.ticket),
        at_attempt=step.number,
    )


def ratio_view(ratio: Ratio | None) -> RatioView | None:
    """Return a measured ratio as it is shown."""
    if ratio is None:
        return None
    return RatioView(ratio=ratio.ratio, lower=ratio.lower, upper=ratio.upper, pairs=ratio.pairs)


def campaign_calibration(state: CampaignState, now: str) -> CalibrationView | None:
    """Return the campaign's calibration with what to be warned of."""
    if state.calibration is None:
        return None
    at = datetime.fromisoformat(now)
    return calibration_view(state.calibration, state.calibration_machine, at)


def canaries_view(state: CampaignState) -> CanariesView:
    """Return the canaries since the last calibration, with exact bounds."""
    same, seen = recent_canaries(state)
    hits = sum(p <= LEVEL for p in same)
    return CanariesView(
        same=len(same),
        same_hits=hits,
        same_bounds=exact_interval(hits, len(same)),
        delayed=len(seen),
        delayed_seen=sum(seen),
        delayed_bounds=exact_interval(sum(seen), len(seen)),
        p_values=same[-P_VALUES:],
    )


def goal_now(state: CampaignState) -> float | None:
    """Return the smallest gain (percent) that the next confirmation looks for."""
    if state.calibration is None:
        return None
    parameters = state.campaign.settings.parameters
    stake = parameters.fraction * max(state.wealth.values())
    return decide.goal(parameters, state.calibration, stake)


def languages_of_record(state: CampaignState, submission: str) -> list[str]:
    """Return the languages of a submission or the seed."""
    if submission == SEED:
        return state.campaign.seed.spec.languages
    return [state.attempts[submission].proposal.language]
