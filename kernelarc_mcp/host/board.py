"""The leaderboard: confirmed gains only, and the lines to beat."""

from kernelarc_mcp.host.advice import next_step
from kernelarc_mcp.host.board_parts import (
    campaign_calibration,
    canaries_view,
    goal_now,
    languages_of_record,
    ratio_view,
    record_view,
)
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.credit import lens_credit
from kernelarc_mcp.host.events import SEED
from kernelarc_mcp.host.state import Attempt, CampaignState, RecordStep
from kernelarc_mcp.host.tickets import standing_of
from kernelarc_mcp.views import (
    AgentRow,
    BaselineView,
    Board,
    BoardRow,
)


def board(campaign: Campaign, agent: str = "") -> Board:
    """Return the leaderboard as an agent sees it, or as anybody does without one."""
    with campaign.journal.reading() as state:
        now = campaign.journal.now()
        if agent:
            standing_of(state, agent)
            step = next_step(state, agent, now, str(campaign.workspace(agent)))
        else:
            step = (
                "Watch it; `kernelarc-mcp agent add` lets an agent in and `kernelarc-mcp serve` is"
                " what it connects to."
            )
        return Board(
            problem=campaign.problem.definition.name,
            device=campaign.settings.device,
            quarantined=state.quarantined,
            calibration=campaign_calibration(state, now),
            canaries=canaries_view(state),
            wealth=dict(state.wealth),
            goal_percent=goal_now(state),
            record=record_view(state),
            suspect="" if state.suspect is None else state.suspect.reason,
            rows=_rows(state),
            baselines=_baselines(state),
            agents=[
                AgentRow(
                    agent=a.name,
                    lens=a.lens,
                    r=a.r,
                    drafts=a.drafts,
                    attempts_used=a.used,
                    attempts_left=state.attempts_left(a.name),
                    verdicts={str(verdict): count for verdict, count in a.verdicts.items()},
                    best=a.best,
                )
                for a in state.agents.values()
            ],
            lenses=lens_credit(state),
            attempts_used=state.used,
            attempts=state.total,
            next_step=step,
        )


def _rows(state: CampaignState) -> list[BoardRow]:
    """Return the records, best first, then branches that are no records, then withdrawn records."""
    standing = [step for step in state.records if not step.withdrawn]
    standing.sort(key=lambda step: step.speedup, reverse=True)
    known = {step.ticket for step in state.records}
    branches = [
        state.attempts[agent.branch] for agent in state.agents.values() if agent.branch not in known
    ]
    branches.sort(key=_gain_of_branch, reverse=True)
    rows = [_record_row(state, step) for step in standing]
    rows += [_branch_row(state, attempt) for attempt in {a.ticket: a for a in branches}.values()]
    rows += [_record_row(state, step) for step in state.records if step.withdrawn]
    return [row.model_copy(update={"rank": rank}) for rank, row in enumerate(rows, start=1)]


def _gain_of_branch(attempt: Attempt) -> float:
    """Return at most 1: no gain of a branch that is no record was confirmed."""
    return min(1.0, attempt.speedup or 1.0)


def _record_row(state: CampaignState, step: RecordStep) -> BoardRow:
    attempt = state.attempts.get(step.ticket)
    return BoardRow(
        rank=1,
        submission=step.ticket,
        agent=step.agent,
        verdict=None if attempt is None else attempt.verdict,
        speedup=step.speedup,
        over_seed=ratio_view(step.over_seed),
        gain=step.gain,
        lower=step.lower,
        withdrawn=step.withdrawn,
        languages=languages_of_record(state, step.ticket),
        lens=None if attempt is None else attempt.lens,
        summary="The first record." if attempt is None else attempt.proposal.summary,
        at_attempt=step.number,
    )


def _branch_row(state: CampaignState, attempt: Attempt) -> BoardRow:
    measured = attempt.confirmation and attempt.confirmation.anchored
    over_seed = measured.candidate if measured else None
    return BoardRow(
        rank=1,
        submission=attempt.ticket,
        agent=attempt.agent,
        verdict=attempt.verdict,
        speedup=None if over_seed is None else over_seed.ratio,
        over_seed=ratio_view(over_seed),
        gain=_gain_of_branch(attempt),
        lower=None,
        withdrawn="",
        languages=languages_of_record(state, attempt.ticket),
        lens=attempt.lens,
        summary=attempt.proposal.summary,
        at_attempt=attempt.number,
    )


def _baselines(state: CampaignState) -> list[BaselineView]:
    seed = BaselineView(name=SEED, speedup=1.0, detail="The first record.")
    judged = [
        BaselineView(name=b.name, speedup=b.speedup, detail=b.detail) for b in state.baselines
    ]
    if state.campaign.reference is None:
        same = BaselineView(name="reference", speedup=1.0, detail="The seed is the reference.")
        judged.append(same)
    return [seed, *judged]
