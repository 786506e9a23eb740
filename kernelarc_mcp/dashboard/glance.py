"""What the page shows: where a campaign stands, in one document of bounded size."""

from collections import Counter
from datetime import UTC, datetime
from typing import Final

from kernelarc_guard.model import Model
from kernelarc_guard.reasons import REASONS
from kernelarc_guard.words import axes_in_words
from kernelarc_mcp.dashboard.curve import Curve
from kernelarc_mcp.host.board_parts import campaign_calibration, canaries_view
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.conclusions import read_memory
from kernelarc_mcp.host.credit import lens_credit
from kernelarc_mcp.host.onlookers import ONLOOKER
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.host.tickets import activity
from kernelarc_mcp.lens_views import LensCreditView
from kernelarc_mcp.report import (
    AgentReport,
    BaselineReport,
    RecordReport,
    agent_report,
    baseline_reports,
    record_report,
)
from kernelarc_mcp.views import CalibrationView, CanariesView, ConclusionView

STREAM: Final = 100
"""Attempts shown, the newest."""
RECORDS: Final = 100
CONCLUSIONS: Final = 40


class StreamRow(Model):
    """One attempt as anybody may see it: nothing that quotes its source."""

    submission: str
    agent: str
    state: str
    verdict: str | None
    reason: str | None
    says: str
    """The reason in words."""
    speedup: float | None
    """Over the record it was compared with."""
    against: str
    lens: str
    draft: bool
    parent: str
    """What its author stood on."""
    summary: str
    at: str
    settled_at: str


class WorkloadBar(Model):
    """One workload of the record, beside the seed; microseconds."""

    name: str
    record_us: float | None
    seed_us: float | None


class Glance(Model):
    """Everything the page shows."""

    seq: int
    """Newest row of the ledger."""
    now: str
    campaign: str
    problem: str
    device: str
    machine: str
    created_at: str
    attempts: int
    attempts_used: int
    queued: int
    judging: list[str]
    activity: list[str]
    verdicts: dict[str, int]
    drafts_forced: int
    device_seconds: float
    record: RecordReport
    records: list[RecordReport]
    """The newest, newest first."""
    records_in_all: int
    agents: list[AgentReport]
    lenses: list[LensCreditView]
    baselines: list[BaselineReport]
    calibration: CalibrationView | None
    canaries: CanariesView
    quarantined: str
    suspect: str
    stream: list[StreamRow]
    """Attempts, the newest verdict or submission first."""
    curve: Curve
    workloads: list[WorkloadBar]
    conclusions: list[ConclusionView]
    conclusions_stored: int


def glance(campaign: Campaign, state: CampaignState, curve: Curve) -> Glance:
    """Return what to show of a campaign at `state`, which must be the journal's newest."""
    settings = state.campaign.settings
    memory = read_memory(campaign, ONLOOKER, CONCLUSIONS)
    verdicts: Counter[str] = Counter()
    for agent in state.agents.values():
        verdicts.update({str(verdict): count for verdict, count in agent.verdicts.items()})
    return Glance(
        seq=state.seq,
        now=datetime.now(UTC).isoformat(timespec="seconds"),
        campaign=settings.name,
        problem=settings.problem,
        device=settings.device,
        machine=state.calibration_machine,
        created_at=state.created_at,
        attempts=state.total,
        attempts_used=state.used,
        queued=len(state.queue()),
        judging=[attempt.ticket for attempt in state.judging()],
        activity=activity(campaign, state),
        verdicts=dict(verdicts),
        drafts_forced=sum(agent.episode for agent in state.agents.values()),
        device_seconds=state.device_ns / 1e9,
        record=record_report(state.record),
        records=[record_report(step) for step in state.records[: -RECORDS - 1 : -1]],
        records_in_all=len(state.records),
        agents=[agent_report(state, agent) for agent in state.agents.values()],
        lenses=lens_credit(state),
        baselines=baseline_reports(state),
        calibration=campaign_calibration(state, campaign.journal.now()),
        canaries=canaries_view(state),
        quarantined=state.quarantined,
        suspect="" if state.suspect is None else state.suspect.reason,
        stream=_stream(state),
        curve=curve,
        workloads=_workloads(campaign, state),
        conclusions=memory.conclusions,
        conclusions_stored=memory.stored,
    )


def _stream(state: CampaignState) -> list[StreamRow]:
    # Tickets are in the order of submission; what is not settled is never far from the newest.
    newest: list[Attempt] = []
    for attempt in reversed(state.attempts.values()):
        if len(newest) == STREAM:
            break
        newest.append(attempt)
    newest.sort(key=lambda one: -(one.settled_seq or one.last_seq))
    return [_row(attempt) for attempt in newest]


def _row(attempt: Attempt) -> StreamRow:
    reason = REASONS.get(attempt.reason or "")
    return StreamRow(
        submission=attempt.ticket,
        agent=attempt.agent,
        state=attempt.state,
        verdict=attempt.verdict,
        reason=attempt.reason,
        says="" if reason is None else reason.says,
        speedup=attempt.speedup,
        against=attempt.against,
        lens=attempt.lens,
        draft=attempt.episode > 0,
        parent=attempt.parent,
        summary=attempt.proposal.summary[:300],
        at=attempt.at,
        settled_at=attempt.settled_at,
    )


def _workloads(campaign: Campaign, state: CampaignState) -> list[WorkloadBar]:
    seed, record = state.records[0].microseconds, state.record.microseconds
    return [
        WorkloadBar(
            name=axes_in_words(workload.axes, workload.uuid),
            record_us=record.get(workload.uuid),
            seed_us=seed.get(workload.uuid),
        )
        for workload in campaign.problem.workloads
    ]
