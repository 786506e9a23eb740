"""The leaderboard: confirmed gains only, and the lines to beat."""

from kernelarc_mcp.host.advice import next_step
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.events import SEED
from kernelarc_mcp.host.state import Attempt, CampaignState, RecordStep
from kernelarc_mcp.host.tickets import standing_of
from kernelarc_mcp.views import AgentRow, BaselineView, Board, BoardRow, RecordView


def record_view(state: CampaignState) -> RecordView:
    """Return the record that stands."""
    step = state.record
    return RecordView(
        submission=step.ticket,
        agent=step.agent,
        speedup=step.speedup,
        lower=step.lower,
        languages=_languages(state, step.ticket),
        at_attempt=step.number,
    )


def board(campaign: Campaign, agent: str = "") -> Board:
    """Return the leaderboard as an agent sees it, or as anybody does without one."""
    with campaign.journal.reading() as state:
        now = campaign.journal.now()
        if agent:
            standing_of(state, agent)
            step = next_step(state, agent, now, str(campaign.workspace(agent)))
        else:
            step = "Watch it, or connect an agent with `kernelarc-mcp connect`."
        return Board(
            problem=campaign.problem.definition.name,
            device=campaign.settings.device,
            record=record_view(state),
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
            attempts_used=state.used,
            attempts=state.total,
            next_step=step,
        )


def _rows(state: CampaignState) -> list[BoardRow]:
    """Return the records, best first, then the branches of agents that are no records."""
    ranked = sorted(state.records, key=lambda step: step.speedup, reverse=True)
    known = {step.ticket for step in ranked}
    branches = [
        _branch(state, state.attempts[agent.branch])
        for agent in state.agents.values()
        if agent.branch not in known
    ]
    ranked += sorted(branches, key=lambda step: step.speedup, reverse=True)
    return [_row(state, rank, step) for rank, step in enumerate(ranked, start=1)]


def _branch(state: CampaignState, attempt: Attempt) -> RecordStep:
    """Return a branch as a row: no gain was confirmed, so it shows none over its record."""
    record = next(step for step in state.records if step.ticket == attempt.against)
    speedup = record.speedup * min(1.0, attempt.speedup or 1.0)
    return RecordStep(attempt.ticket, attempt.agent, speedup, None, attempt.number, {})


def _row(state: CampaignState, rank: int, step: RecordStep) -> BoardRow:
    attempt = state.attempts.get(step.ticket)
    return BoardRow(
        rank=rank,
        submission=step.ticket,
        agent=step.agent,
        verdict=None if attempt is None else attempt.verdict,
        speedup=step.speedup,
        lower=step.lower,
        languages=_languages(state, step.ticket),
        lens=None if attempt is None else attempt.lens,
        summary="The first record." if attempt is None else attempt.proposal.summary,
        at_attempt=step.number,
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


def _languages(state: CampaignState, submission: str) -> list[str]:
    if submission == SEED:
        return state.campaign.seed.spec.languages
    return [state.attempts[submission].proposal.language]
