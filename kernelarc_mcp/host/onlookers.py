"""What callers see who take no part: no brief, no source, and nothing of an agent's own folder."""

from typing import Final

from kernelarc_guard.reasons import REASONS
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import NotAllowed, UnknownTicket
from kernelarc_mcp.host.events import SEED
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.views import SubmissionView

ONLOOKER: Final = ""
"""Stands for the agent's name where somebody looks who takes no part."""
NEXT_STEP: Final = (
    "You only read: view_leaderboard, read_memory, get_strategy_lens with a name, and"
    " wait_submission with any ticket show what there is."
)


def outside_view(view: SubmissionView) -> SubmissionView:
    """Return a submission without what quotes its source: compilers and exceptions do."""
    reason = REASONS.get(view.reason or "")
    workloads = [report.model_copy(update={"detail": ""}) for report in view.workloads]
    return view.model_copy(
        update={
            "detail": "" if reason is None else reason.says,
            "message": f"{view.verdict}: {view.reason}" if view.state == "done" else view.state,
            "workloads": workloads,
            "build": [],
            "observations": [],
            "next_step": NEXT_STEP,
        }
    )


def any_attempt(state: CampaignState, ticket: str) -> Attempt:
    """Return a submission of anybody; UnknownTicket where there is none."""
    attempt = state.attempts.get(ticket)
    if attempt is None:
        raise UnknownTicket(f"there is no submission {ticket[:40]!r} in this campaign")
    return attempt


def check_open(campaign: Campaign, state: CampaignState, ticket: str) -> None:
    """Raise NotAllowed where the sources of a submission are not open to everybody."""
    if ticket == SEED:
        return
    any_attempt(state, ticket)
    if campaign.settings.snapshots != "always":
        raise NotAllowed(
            f"the source of {ticket} is open to agents only, as this campaign's rules say;"
            " `seed` is open to all"
        )
