"""What each lens brought: KEEPs and gain per attempt and per second of the device; pure."""

import math

from kernelarc_mcp.host.state import CampaignState, LensTotals
from kernelarc_mcp.lens_views import LensCreditView


def lens_credit(state: CampaignState) -> list[LensCreditView]:
    """Return the credit of every lens that was handed out, the largest gain first.

    An attempt counts for the lens its agent had when it was submitted, a KEEP while its record
    stands. Seconds are those of the screen and the confirmation that led to the verdict.
    """
    agents: dict[str, list[str]] = {}
    for agent in state.agents.values():
        agents.setdefault(agent.lens, []).append(agent.name)
    used = [lens for lens in state.campaign.settings.lenses if state.lens_use[lens]]
    rows = [_credit(state, lens, agents.get(lens, [])) for lens in used]
    return sorted(rows, key=lambda row: -row.gain_percent)


def _credit(state: CampaignState, lens: str, agents: list[str]) -> LensCreditView:
    totals = state.lens_totals.get(lens, LensTotals())
    log_gain, seconds = totals.gain_percent / 100, totals.device_ns / 1e9
    return LensCreditView(
        lens=lens,
        agents=agents,
        assigned=state.lens_use[lens],
        attempts=totals.attempts,
        verdicts={str(verdict): count for verdict, count in totals.verdicts.items()},
        keeps=totals.keeps,
        gain_percent=_percent(log_gain),
        gain_per_attempt=_percent(log_gain / totals.attempts) if totals.attempts else None,
        device_seconds=seconds,
        gain_per_device_second=_percent(log_gain) / seconds if seconds else None,
    )


def _percent(log_gain: float) -> float:
    return 100 * math.expm1(log_gain)
