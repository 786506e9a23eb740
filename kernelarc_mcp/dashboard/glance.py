"""What the page shows: where a campaign stands, in one document of bounded size."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Self

from kernelarc_guard.model import Model
from kernelarc_mcp.cost.report import CostReport, cost_report
from kernelarc_mcp.cost.told import ToldSoFar
from kernelarc_mcp.dashboard.curve import Curve, Progress
from kernelarc_mcp.dashboard.gauges import Gauges
from kernelarc_mcp.dashboard.problem import ProblemLines, Timed, WorkloadBar, problem_in_words
from kernelarc_mcp.dashboard.stream import StreamPage, stream_page
from kernelarc_mcp.host.board_parts import campaign_calibration, canaries_view
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.conclusions import shown_conclusions
from kernelarc_mcp.host.credit import lens_credit
from kernelarc_mcp.host.election import holder_of
from kernelarc_mcp.host.extra_board import other_models_in_short
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.host.tickets import activity
from kernelarc_mcp.lens_views import LensCreditView
from kernelarc_mcp.noise import calibration_view
from kernelarc_mcp.report import (
    AgentReport,
    BaselineReport,
    RecordReport,
    agent_report,
    baseline_reports,
    record_report,
)
from kernelarc_mcp.reporting.thinning import thinned
from kernelarc_mcp.scores.dots import RooflineView, roofline_view
from kernelarc_mcp.views import CalibrationView, CanariesView, ConclusionView, OtherModelView

RECORDS: Final = 100
CONCLUSIONS: Final = 40
MOST_DOTS: Final = 200
"""Of the roofline; its table has them too."""


class Glance(Model):
    """Everything the page shows."""

    seq: int
    """Newest row of the ledger."""
    now: str
    campaign: str
    problem: str
    about: ProblemLines
    device: str
    machine: str
    created_at: str
    served: bool
    """A server works on it."""
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
    records_withdrawn: int
    agents: list[AgentReport]
    lenses: list[LensCreditView]
    baselines: list[BaselineReport]
    other_models: list[OtherModelView]
    """With the record's row and the fastest one's."""
    calibration: CalibrationView | None
    canaries: CanariesView
    gauges: Gauges
    quarantined: str
    suspect: str
    stream: StreamPage
    """The newest."""
    curve: Curve
    roofline: RooflineView
    costs: CostReport
    workloads: list[WorkloadBar]
    conclusions: list[ConclusionView]
    conclusions_stored: int


@dataclass
class Followed:
    """What is kept up from one look at a campaign to the next."""

    progress: Progress
    told: ToldSoFar
    timed: Timed = field(default_factory=Timed)

    @classmethod
    def of(cls, campaign: Campaign) -> Self:
        """Have seen nothing of it yet."""
        return cls(Progress(campaign), ToldSoFar(campaign))


def glance(campaign: Campaign, state: CampaignState, followed: Followed) -> Glance:
    """Return what to show of a campaign at `state`, which must be the journal's newest."""
    curve = followed.progress.look(state)
    roofline = _roofline(campaign, state)
    settings = state.campaign.settings
    conclusions, stored = shown_conclusions(campaign, CONCLUSIONS)
    verdicts: Counter[str] = Counter()
    for agent in state.agents.values():
        verdicts.update({str(verdict): count for verdict, count in agent.verdicts.items()})
    return Glance(
        seq=state.seq,
        now=datetime.now(UTC).isoformat(timespec="seconds"),
        campaign=settings.name,
        problem=settings.problem,
        about=problem_in_words(campaign, state),
        device=settings.device,
        machine=state.calibration_machine,
        created_at=state.created_at,
        served=served(campaign),
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
        records_withdrawn=len(state.withdrawn),
        agents=[agent_report(state, agent) for agent in state.agents.values()],
        lenses=lens_credit(state),
        baselines=baseline_reports(state),
        other_models=other_models_in_short(state),
        calibration=_calibration(campaign, state),
        canaries=canaries_view(state),
        gauges=followed.progress.gauged.look(),
        quarantined=state.quarantined,
        suspect="" if state.suspect is None else state.suspect.reason,
        stream=stream_page(state),
        curve=curve,
        roofline=roofline,
        costs=cost_report(state, followed.told.look(state.seq), campaign.folder),
        workloads=followed.timed.bars(campaign, state, roofline.least_us),
        conclusions=conclusions,
        conclusions_stored=stored,
    )


def served(campaign: Campaign) -> bool:
    """Say whether a server works on a campaign; one of another machine is taken to."""
    holder = holder_of(campaign.folder)
    return holder is not None and not holder.gone


def _calibration(campaign: Campaign, state: CampaignState) -> CalibrationView | None:
    """Return the calibration; of a search that has ended without what matters for judging on."""
    if state.calibration is not None and not state.unsettled and state.used >= state.total:
        return calibration_view(state.calibration, "", datetime.fromisoformat(state.calibration.at))
    return campaign_calibration(state, campaign.journal.now())


def _roofline(campaign: Campaign, state: CampaignState) -> RooflineView:
    view = roofline_view(campaign, state)
    dots = thinned(view.dots, MOST_DOTS, lambda dot: dot.bytes_per_second)
    return view.model_copy(update={"dots": dots})
