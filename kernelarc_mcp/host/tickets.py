"""Looking at a submission: always the same shape, finished or not."""

from typing import Final

from kernelarc_guard.judgement import merged_stages, merged_workloads
from kernelarc_guard.reasons import STAGES, Stage
from kernelarc_mcp.host import money
from kernelarc_mcp.host.advice import after_verdict
from kernelarc_mcp.host.board_parts import ratio_view
from kernelarc_mcp.host.budget import directive
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.election import holder_of
from kernelarc_mcp.host.errors import NotAllowed, NotYours, UnknownAgent, UnknownTicket
from kernelarc_mcp.host.events import SEED, Settled
from kernelarc_mcp.host.onlookers import ONLOOKER, any_attempt, outside_view
from kernelarc_mcp.host.record_words import told_detail
from kernelarc_mcp.host.settle import append_settled
from kernelarc_mcp.host.state import AgentStanding, Attempt, CampaignState
from kernelarc_mcp.views import AgentState, NumbersView, SubmissionView

FLEET: Final = "fleet"
"""In place of a ticket: what the fleet has."""


def standing_of(state: CampaignState, agent: str) -> AgentStanding:
    """Return an agent that has registered; UnknownAgent for any other."""
    standing = state.agents.get(agent)
    if standing is None:
        raise UnknownAgent(f"there is no agent {agent!r} in this campaign")
    if not standing.lens:
        raise NotAllowed("call get_brief first: it registers you and gives you a lens")
    return standing


def branch_digest(state: CampaignState, branch: str) -> str:
    """Return the digest of a branch's solution."""
    if branch == SEED:
        return state.campaign.seed_digest
    return state.attempts[branch].solution_digest or ""


def agent_state(state: CampaignState, agent: str, now: str) -> AgentState:
    """Return where an agent stands."""
    standing = standing_of(state, agent)
    return AgentState(
        agent=agent,
        lens=standing.lens,
        directive=directive(state, agent, now),
        r=standing.r,
        r_draft=state.campaign.settings.r_draft,
        drafts=standing.drafts,
        attempts_used=standing.used,
        attempts_left=state.attempts_left(agent),
        branch=standing.branch,
        branch_digest=branch_digest(state, standing.branch),
        money_left=money_left(state, agent),
    )


def money_left(state: CampaignState, agent: str) -> str | None:
    """Return what an agent may still spend, in words; None where the campaign has no limit."""
    settings = state.campaign.settings
    if settings.money is None:
        return None
    return money.left(settings.money, settings.pool, state.purses, agent)


def own_attempt(state: CampaignState, agent: str, ticket: str) -> Attempt:
    """Return a submission of this agent; UnknownTicket or NotYours for any other."""
    attempt = state.attempts.get(ticket)
    if attempt is None:
        raise UnknownTicket(f"there is no submission {ticket[:40]!r} in this campaign")
    if attempt.agent != agent:
        raise NotYours(f"{ticket} was submitted by {attempt.agent}; look at your own submissions")
    return attempt


def submission_view(
    campaign: Campaign, agent: str, ticket: str, *, charged: bool = True
) -> SubmissionView:
    """Return a submission as its agent sees it, or, without an agent, as an onlooker does."""
    with campaign.journal.reading() as state:
        if agent == ONLOOKER:
            return outside_view(_view(campaign, state, any_attempt(state, ticket), charged))
        standing_of(state, agent)
        return _view(campaign, state, own_attempt(state, agent, ticket), charged)


def cancel(campaign: Campaign, agent: str, ticket: str) -> SubmissionView:
    """Reject a queued submission as cancelled; one that is judged or done stays as it is."""
    with campaign.journal.writing() as writer:
        standing_of(writer.state, agent)
        attempt = own_attempt(writer.state, agent, ticket)
        queued = attempt.state == "queued"
        if queued:
            gone = Settled(
                verdict="REJECT",
                reason="cancelled",
                stage="envelope",
                detail="Cancelled by its agent while it was queued; the attempt stays charged.",
            )
            append_settled(writer, attempt, gone)
        view = _view(campaign, writer.state, attempt, True)
    if queued:
        return view
    already = "is done" if attempt.state == "done" else "is being judged"
    return view.model_copy(
        update={"message": f"Nothing was cancelled: the submission {already} already."}
    )


def _view(
    campaign: Campaign, state: CampaignState, attempt: Attempt, charged: bool
) -> SubmissionView:
    now = campaign.journal.now()
    stage, percent, message = _progress(campaign, attempt)
    position = _places(campaign, state)[attempt.ticket] if attempt.state == "queued" else None
    if attempt.state == "queued":
        note = noted(campaign)
        message = f"Queued, place {position}." + (f" {note}" if note else "")
    results = [r for r in (attempt.screen, attempt.confirmation) if r and attempt.state == "done"]
    last = results[-1] if results else None
    workspace = campaign.shown_workspace(attempt.agent)
    return SubmissionView(
        ticket=attempt.ticket,
        state=attempt.state,
        position=position,
        stage=attempt.stage if attempt.state == "done" else stage,
        percent=100 if attempt.state == "done" else percent,
        message=message,
        verdict=attempt.verdict,
        reason=attempt.reason,
        detail=told_detail(state, attempt),
        speedup=attempt.speedup,
        lower=attempt.lower,
        numbers=_numbers(state, attempt) if attempt.state == "done" else None,
        stages={str(stage): done for stage, done in merged_stages(results).items()},
        workloads=merged_workloads(results),
        build=[] if last is None else last.build,
        observations=list(dict.fromkeys(seen for r in results for seen in r.observations)),
        duplicate_of=attempt.duplicate_of,
        charged=charged,
        protection={} if last is None else last.protection,
        state_after=agent_state(state, attempt.agent, now),
        next_step=after_verdict(state, attempt, attempt.agent, now, workspace),
    )


def _places(campaign: Campaign, state: CampaignState) -> dict[str, int]:
    """Return each queued submission's place, from 1: one line for all who wait, until the next row."""
    return campaign.memo.at(
        state.seq, "places", lambda: {ticket: n for n, ticket in enumerate(state.queue(), start=1)}
    )


def _numbers(state: CampaignState, attempt: Attempt) -> NumbersView | None:
    confirmation = attempt.confirmation
    last = confirmation or attempt.screen
    if last is None or last.decision is None:
        return None
    decided, screened = last.decision, attempt.screen and attempt.screen.decision
    over_seed = None if last.anchored is None else last.anchored.candidate
    return NumbersView(
        speedup=decided.speedup,
        lower=decided.lower,
        over_seed=ratio_view(over_seed),
        pairs=decided.pairs,
        blocks=decided.blocks,
        screen_pairs=screened.pairs if screened else 0,
        confirm_pairs=decided.pairs if confirmation else 0,
        stake=decided.stake,
        staked=confirmation is not None,
        wealth_left=state.wealth[state.share_of(attempt.agent)],
        delta_percent=decided.delta,
        band_percent=decided.band,
        goal_percent=decided.goal,
        resolution_percent=decided.resolution,
    )


def _progress(campaign: Campaign, attempt: Attempt) -> tuple[Stage | None, int, str]:
    if attempt.state == "done":
        return None, 100, f"{attempt.verdict}: {attempt.reason}"
    row = campaign.journal.ledger.connection.execute(
        "SELECT stage, percent, message FROM progress WHERE ticket = ?", [attempt.ticket]
    ).fetchone()
    if row is None or attempt.state == "queued":
        return None, 0, ""
    stage = next((known for known in STAGES if known == row[0]), None)
    return stage, int(row[1]), str(row[2]) or "Being judged."


def noted(campaign: Campaign) -> str:
    """Return what is measured beside submissions, or why nothing is judged; else nothing."""
    return _note(campaign, "")


def _note(campaign: Campaign, about: str) -> str:
    row = campaign.journal.ledger.connection.execute(
        "SELECT message FROM progress WHERE ticket = ?", [about]
    ).fetchone()
    return "" if row is None else str(row[0])


def activity(campaign: Campaign, state: CampaignState) -> list[str]:
    """Return what the device is doing, a line for each thing; empty where it does nothing."""
    holder = holder_of(campaign.folder)
    nobody = holder is None or holder.gone
    if state.unsettled and nobody:
        # What is noted, and how far a judgement had come, is of a process that is no more.
        count = len(state.unsettled)
        waiting = "1 submission waits" if count == 1 else f"{count} submissions wait"
        return [
            f"No server works on this campaign: {waiting} for one;"
            f" `kernelarc-mcp serve {campaign.folder}` goes on."
        ]
    # What a server said of its fleet goes with it, however it went.
    lines = [noted(campaign), "" if nobody else _note(campaign, FLEET)]
    for attempt in state.judging():
        stage, percent, message = _progress(campaign, attempt)
        lines.append(f"{attempt.ticket}: {stage or 'starting'}, {percent} %: {message}")
    return [line for line in lines if line]


def changed(campaign: Campaign, ticket: str) -> int:
    """Return a number that grows whenever a row, a sign of life or a note is about a submission.

    Its place in the queue moves without: who waits for it looks at that now and then.
    """
    row = campaign.journal.ledger.connection.execute(
        "SELECT coalesce((SELECT last_seq FROM submission WHERE ticket = ?), 0)"
        " + (SELECT coalesce(sum(revision), 0) FROM progress WHERE ticket IN (?, ''))",
        [ticket, ticket],
    ).fetchone()
    return int(row[0])
