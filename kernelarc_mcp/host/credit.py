"""What each lens brought: KEEPs and gain per attempt and per second of the device; pure."""

import math
from collections import Counter

from kernelarc_guard.protocol import Result
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.lens_views import LensCreditView


def lens_credit(state: CampaignState) -> list[LensCreditView]:
    """Return the credit of every lens that was handed out, the largest gain first.

    An attempt counts for the lens its agent had when it was submitted, a KEEP while its record
    stands. Seconds are those of the screen and the confirmation that led to the verdict.
    """
    used = [lens for lens in state.campaign.settings.lenses if state.lens_use[lens]]
    rows = [_credit(state, lens) for lens in used]
    return sorted(rows, key=lambda row: -row.gain_percent)


def _credit(state: CampaignState, lens: str) -> LensCreditView:
    attempts = [attempt for attempt in state.attempts.values() if attempt.lens == lens]
    tickets = {attempt.ticket for attempt in attempts}
    gains = [
        100 * math.log(step.gain)
        for step in state.records
        if step.ticket in tickets and step.gain is not None and not step.withdrawn
    ]
    gain, seconds = math.fsum(gains), sum(map(_device_seconds, attempts))
    return LensCreditView(
        lens=lens,
        agents=[agent.name for agent in state.agents.values() if agent.lens == lens],
        assigned=state.lens_use[lens],
        attempts=len(attempts),
        verdicts={str(v): n for v, n in Counter(a.verdict for a in attempts if a.verdict).items()},
        keeps=len(gains),
        gain_percent=gain,
        gain_per_attempt=gain / len(attempts) if attempts else None,
        device_seconds=seconds,
        gain_per_device_second=gain / seconds if seconds else None,
    )


def _device_seconds(attempt: Attempt) -> float:
    judged = [result for result in (attempt.screen, attempt.confirmation) if result is not None]
    return sum(map(_held, judged)) / 1e9


def _held(result: Result) -> int:
    lease = result.lease
    return 0 if lease is None else max(0, lease.to_ns - lease.from_ns)
