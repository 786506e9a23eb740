"""What happened in a campaign, as one document: for `status`, `report` and the demo's end."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from kernelarc_guard.decide import Calibration
from kernelarc_guard.model import Model
from kernelarc_guard.reasons import Stage, Verdict
from kernelarc_mcp.cost.report import CostReport, cost_report
from kernelarc_mcp.cost.told import Told, ToldSoFar
from kernelarc_mcp.host.board_parts import campaign_calibration, canaries_view, ratio_view
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.credit import lens_credit
from kernelarc_mcp.host.extra_board import other_models
from kernelarc_mcp.host.readable import readable
from kernelarc_mcp.host.state import AgentStanding, Attempt, CampaignState, RecordStep
from kernelarc_mcp.host.tickets import activity
from kernelarc_mcp.lens_views import LensCreditView
from kernelarc_mcp.views import CalibrationView, CanariesView, OtherModelView, RatioView, UsageView


class AgentReport(Model):
    """One agent's part."""

    agent: str
    lens: str
    """Empty before its first brief."""
    attempts_used: int
    attempts_left: int
    r: int
    drafts_forced: int
    drafts_made: int
    drafting: bool
    branch: str
    verdicts: dict[str, int]
    best: float | None
    """Best confirmed speedup over the seed."""
    usage: UsageView | None = None
    """What its client says it used; None where nobody recorded any."""


class RecordReport(Model):
    """One record of the campaign."""

    submission: str
    agent: str | None
    speedup: float
    """Over the seed, measured beside it in the confirming comparison."""
    over_seed: RatioView | None
    """`speedup` with its spread."""
    gain: float | None
    """Over the record before it."""
    lower: float | None
    """Lower bound of `gain`."""
    at_attempt: int
    withdrawn: str
    """Why it is no record any more, a reason code; else empty."""


class SubmissionReport(Model):
    """One attempt."""

    submission: str
    agent: str
    number: int
    at: str
    state: str
    verdict: Verdict | None
    reason: str | None
    stage: Stage | None
    detail: str
    against: str
    speedup: float | None
    lower: float | None
    lens: str
    draft: bool
    """Made while a draft was demanded."""
    summary: str
    algorithm: str
    dsl: str
    layout: str
    model: str
    tokens: int | None
    cost: float | None
    seconds: float
    """Device and build time of its screen and confirmation."""


class BaselineReport(Model):
    """A line to beat."""

    name: str
    speedup: float | None
    detail: str


class Report(Model):
    """A campaign as it stands."""

    campaign: str
    folder: str
    problem: str
    operator_class: str
    device: str
    device_model: str
    """As the campaign names it; empty: a fleet's only one."""
    extra_models: list[str]
    in_flight: int
    """Submissions of one agent that may be judged at a time."""
    created_at: str
    attempts: int
    attempts_used: int
    queued: int
    judging: list[str]
    activity: list[str]
    """What is being measured, or why nothing is; empty where nothing is to be done."""
    verdicts: dict[str, int]
    drafts_forced: int
    record: RecordReport
    records: list[RecordReport]
    agents: list[AgentReport]
    lenses: list[LensCreditView]
    baselines: list[BaselineReport]
    other_models: list[OtherModelView]
    """Its records on other models than its own."""
    wealth: dict[str, float]
    """Error budget that is left; the pool's share has the empty name."""
    calibration: Calibration | None
    calibration_view: CalibrationView | None
    """The same with its warnings, as the board shows it."""
    canaries: CanariesView
    quarantined: str
    device_seconds: float
    tokens: int
    """As reported by the clients."""
    cost: float
    costs: CostReport
    """Tokens and money per agent, per KEEP and per 1 % gained."""
    submissions: list[SubmissionReport]


def read_report(folder: Path, *, submissions: bool = True) -> Report:
    """Read the report of the campaign in `folder`; CampaignError where there is none.

    One that this user cannot write is only read. Without `submissions` none is listed.
    """
    with readable(folder) as campaign:
        return report_of(campaign, ToldSoFar(campaign), submissions=submissions)


def report_of(campaign: Campaign, told: ToldSoFar, *, submissions: bool = True) -> Report:
    """Return the report of an open campaign."""
    with campaign.journal.reading() as state:
        attempts: Iterable[Attempt] = state.attempts.values() if submissions else ()
        return _report(campaign, state, told.look(state.seq), attempts)


def _report(
    campaign: Campaign,
    state: CampaignState,
    told: Mapping[str, Told],
    attempts: Iterable[Attempt],
) -> Report:
    created = state.campaign
    verdicts: Counter[str] = Counter()
    for agent in state.agents.values():
        verdicts.update({str(verdict): count for verdict, count in agent.verdicts.items()})
    return Report(
        campaign=created.settings.name,
        folder=str(campaign.folder),
        problem=created.settings.problem,
        operator_class=created.operator_class,
        device=created.settings.device,
        device_model=created.settings.device_model,
        extra_models=created.settings.extra_models,
        in_flight=created.settings.in_flight,
        created_at=state.created_at,
        attempts=state.total,
        attempts_used=state.used,
        queued=len(state.queue()),
        judging=[attempt.ticket for attempt in state.judging()],
        activity=activity(campaign, state),
        verdicts=dict(verdicts),
        drafts_forced=sum(agent.episode for agent in state.agents.values()),
        record=record_report(state.record),
        records=[record_report(step) for step in state.records],
        agents=[agent_report(state, agent) for agent in state.agents.values()],
        lenses=lens_credit(state),
        baselines=baseline_reports(state),
        other_models=other_models(state),
        wealth=dict(state.wealth),
        calibration=state.calibration,
        calibration_view=campaign_calibration(state, datetime.now(UTC).isoformat()),
        canaries=canaries_view(state),
        quarantined=state.quarantined,
        device_seconds=state.device_ns / 1e9,
        tokens=sum(one.tokens for one in told.values()),
        cost=sum(one.usd for one in told.values()),
        costs=cost_report(state, told, campaign.folder),
        submissions=[submission_report(one) for one in attempts],
    )


def baseline_reports(state: CampaignState) -> list[BaselineReport]:
    """Return the lines to beat that were judged."""
    return [
        BaselineReport(name=known.name, speedup=known.speedup, detail=known.detail)
        for known in state.baselines
    ]


def record_report(step: RecordStep) -> RecordReport:
    """Return one record as it is reported."""
    return RecordReport(
        submission=step.ticket,
        agent=step.agent,
        speedup=step.speedup,
        over_seed=ratio_view(step.over_seed),
        gain=step.gain,
        lower=step.lower,
        at_attempt=step.number,
        withdrawn=step.withdrawn,
    )


def agent_report(state: CampaignState, agent: AgentStanding) -> AgentReport:
    """Return one agent's part."""
    return AgentReport(
        agent=agent.name,
        lens=agent.lens,
        attempts_used=agent.used,
        attempts_left=state.attempts_left(agent.name),
        r=agent.r,
        drafts_forced=agent.episode,
        drafts_made=agent.drafts,
        drafting=agent.drafting,
        branch=agent.branch,
        verdicts={verdict: count for verdict, count in agent.verdicts.items()},
        best=agent.best,
        usage=agent.usage.view(),
    )


def submission_report(attempt: Attempt) -> SubmissionReport:
    """Return one attempt as it is reported."""
    proposal = attempt.proposal
    judged = [result for result in (attempt.screen, attempt.confirmation) if result is not None]
    return SubmissionReport(
        submission=attempt.ticket,
        agent=attempt.agent,
        number=attempt.number,
        at=attempt.at,
        state=attempt.state,
        verdict=attempt.verdict,
        reason=attempt.reason,
        stage=attempt.stage,
        detail=attempt.detail,
        against=attempt.against,
        speedup=attempt.speedup,
        lower=attempt.lower,
        lens=attempt.lens,
        draft=attempt.episode > 0,
        summary=proposal.summary,
        algorithm=proposal.algorithm,
        dsl=attempt.found_dsl,
        layout=proposal.layout,
        model=proposal.model,
        tokens=proposal.tokens,
        cost=proposal.cost,
        seconds=sum(result.seconds for result in judged),
    )
