"""From the guard's answers to a verdict; pure, so that `verify` takes the same decision again."""

from kernelarc_guard.protocol import Result
from kernelarc_mcp.host.events import Drafting, Settled
from kernelarc_mcp.host.journal import Writer
from kernelarc_mcp.host.plateau import draft_lens
from kernelarc_mcp.host.state import Attempt, CampaignState


def outcome(state: CampaignState, attempt: Attempt) -> Settled:
    """Return the verdict that follows from a judged submission's results."""
    result = attempt.confirmation or attempt.screen
    if result is None or result.verdict is None or result.reason is None:
        raise ValueError(f"{attempt.ticket} has not been judged to an end")
    decision = result.decision
    return Settled(
        verdict=result.verdict,
        reason=result.reason,
        stage=result.stage,
        detail=_with_its_record(state, attempt, result),
        duplicate_of=_duplicate_of(state, result),
        speedup=None if decision is None else decision.speedup,
        lower=None if decision is None else decision.lower,
    )


def guard_lost(attempt: Attempt, detail: str) -> Settled:
    """Return the verdict of a submission the guard died on too often."""
    stage = "correctness" if attempt.screen is None else "timing"
    return Settled(
        verdict="REVERT",
        reason="guard_lost",
        stage="timing" if stage == "timing" else "correctness",
        detail=f"The guard did not survive judging it {attempt.deaths + 1} times. {detail}".strip(),
    )


def append_settled(writer: Writer, attempt: Attempt, settled: Settled) -> None:
    """Append a verdict and, where the plateau is reached, the draft it leads to.

    Whatever was judged to an end owes its agent the branch's files: a new branch's, or once more the old one's.
    """
    writer.append(settled, attempt.agent, attempt.ticket)
    if settled.verdict != "REJECT":
        writer.owe("workspace", attempt.agent)
    due = writer.state.draft_due
    if due:
        standing = writer.state.agents[due]
        writer.append(
            Drafting(episode=standing.episode + 1, lens=draft_lens(writer.state, standing)), due
        )


def _with_its_record(state: CampaignState, attempt: Attempt, result: Result) -> str:
    """Return the result's detail, and which record it is about where that is none any more."""
    if result.decision is None or attempt.against == state.record.ticket:
        return result.detail
    return (
        f"{result.detail} It was compared with {attempt.against}, the record when its judgement"
        f" began; {state.record.ticket} is the record now."
    ).strip()


def _duplicate_of(state: CampaignState, result: Result) -> str | None:
    if result.reason != "duplicate" or result.binary is None:
        return None
    return state.binaries.get(result.binary)
