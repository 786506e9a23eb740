"""The one thing an agent should do now, in words."""

from kernelarc_mcp.host.budget import directive
from kernelarc_mcp.host.state import Attempt, CampaignState


def next_step(state: CampaignState, agent: str, now: str, workspace: str) -> str:
    """Return what the agent's directive asks for."""
    standing = state.agents[agent]
    match directive(state, agent, now):
        case "STOP":
            why = state.limit_reached(now) or "no attempt is left"
            return (
                f"STOP: {why}. Write down what you proved with write_conclusion, look at"
                " view_leaderboard, and end."
            )
        case "DRAFT":
            peers = {
                "always": "view_snapshot shows the sources of others",
                "drafting": "view_snapshot shows the sources of others now",
                "never": "view_leaderboard shows what others reached",
            }[state.campaign.settings.snapshots]
            return (
                f"DRAFT: r reached {state.campaign.settings.r_draft}. Read your new lens"
                f" ({standing.lens}) with get_strategy_lens; {peers}. Then submit a new draft that"
                f" changes the algorithm, DSL or layout and is no light edit of {standing.branch}."
            )
        case "RESTORE":
            return (
                f"RESTORE: your branch is {standing.branch}; its files are in {workspace} again,"
                " what differed was moved to previous/. Start the next attempt from them; where they"
                " could not be written, view_snapshot shows them."
            )
        case "CONTINUE":
            return (
                f"CONTINUE: try the next idea of your lens ({standing.lens}, see get_strategy_lens) from"
                f" {standing.branch} (view_snapshot shows it) and call submit_candidate."
            )


def after_verdict(
    state: CampaignState, attempt: Attempt, agent: str, now: str, workspace: str
) -> str:
    """Return what to do after looking at a submission."""
    if attempt.state != "done":
        return f"Call wait_submission with ticket {attempt.ticket} until it has a verdict."
    step = next_step(state, agent, now, workspace)
    match attempt.verdict:
        case "KEEP":
            lead = "It is the new record: write a win with write_conclusion."
        case "REJECT" if attempt.reason in ("cancelled", "draft_not_new", "duplicate"):
            lead = ""
        case "REJECT" | "REVERT":
            lead = "If others should avoid this, write a trap with write_conclusion."
        case _:
            lead = ""
    return f"{lead} {step}".strip()
