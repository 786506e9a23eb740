"""The one thing an agent should do now, in words."""

from typing import Literal

from kernelarc_mcp.host.budget import directive
from kernelarc_mcp.host.gate import MAX_SIMILARITY
from kernelarc_mcp.host.record_words import withdrawn_words
from kernelarc_mcp.host.state import AgentStanding, Attempt, CampaignState

Read = Literal["", "brief", "lens", "memory"]
"""What the answer that this stands in has just told; empty: something else."""


def next_step(state: CampaignState, agent: str, now: str, workspace: str, read: Read = "") -> str:
    """Return what the agent's directive asks for, after an answer that told it `read`.

    `workspace` is empty where the caller cannot see it.
    """
    standing = state.agents[agent]
    match directive(state, agent, now):
        case "STOP":
            why = state.limit_reached(now, agent) or "no attempt is left"
            return (
                f"STOP: {why}. Write down what you proved with write_conclusion, look at"
                " view_leaderboard, and end."
            )
        case "DRAFT":
            return _draft(state, standing, read)
        case "RESTORE":
            return (
                f"RESTORE: your branch is {standing.branch}: view_snapshot shows its files. Start the"
                f" next attempt from them.{_in_workspace(workspace)}"
            )
        case "CONTINUE":
            return _onward(standing, read)


def _in_workspace(workspace: str) -> str:
    if not workspace:
        return ""
    return f" Where you see {workspace}, they are there, and what differed was moved to previous/."


def _draft(state: CampaignState, standing: AgentStanding, read: Read) -> str:
    peers = {
        "always": "view_snapshot shows the sources of others",
        "drafting": "view_snapshot shows the sources of others now",
        "never": "view_leaderboard shows what others reached",
    }[state.campaign.settings.snapshots]
    lens = f"Read your new lens ({standing.lens}) with get_strategy_lens; {peers}"
    lead = f"Your lens is {standing.lens}; {peers}" if read == "lens" else lens
    return (
        f"DRAFT: r reached {state.campaign.settings.r_draft}. {lead}. Then submit a new draft that"
        f" changes the algorithm, DSL or layout, declares which, and shares at most"
        f" {MAX_SIMILARITY:.0%} of its text with {standing.branch}; what shares more is refused and costs"
        " an attempt."
    )


def _onward(standing: AgentStanding, read: Read) -> str:
    """Lead a new agent through what it has to read before its first attempt, in that order."""
    lens, branch = standing.lens, standing.branch
    if not standing.used and read == "brief":
        return (
            f"CONTINUE: read your lens ({lens}) with get_strategy_lens, then read_memory; after that"
            f" write a candidate, from {branch} (view_snapshot shows it) or from an empty file."
        )
    if not standing.used and read == "lens":
        return (
            "CONTINUE: call read_memory; then write a candidate after this lens's first move that"
            f" applies, from {branch} (view_snapshot shows it) or from an empty file."
        )
    idea, which = ("next idea", "") if standing.used else ("first move", " that applies")
    told = "this lens" if read == "lens" else f"your lens ({lens}, see get_strategy_lens)"
    return (
        f"CONTINUE: try the {idea} of {told}{which}, from {branch} (view_snapshot shows it), and"
        " call submit_candidate."
    )


def after_verdict(
    state: CampaignState, attempt: Attempt, agent: str, now: str, workspace: str
) -> str:
    """Return what to do after looking at a submission."""
    if attempt.state != "done":
        return f"Call wait_submission with ticket {attempt.ticket} until it has a verdict."
    step = next_step(state, agent, now, workspace)
    match attempt.verdict:
        case "KEEP" if gone := withdrawn_words(state, attempt.ticket):
            lead = gone
        case "KEEP":
            lead = "It is the new record: write a win with write_conclusion."
        case "REJECT" if attempt.reason in ("cancelled", "draft_not_new", "duplicate"):
            lead = ""
        case "REJECT" | "REVERT":
            lead = "If others should avoid this, write a trap with write_conclusion."
        case _:
            lead = ""
    return f"{lead} {step}".strip()
