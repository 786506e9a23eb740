"""All that a report says of a campaign, as one document; the page and the texts are made from it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelarc_guard.decide import Parameters
from kernelarc_guard.model import Model
from kernelarc_guard.protocol import Result
from kernelarc_mcp.cost.told import ToldSoFar
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.conclusions import memory_of
from kernelarc_mcp.host.errors import BadRequest
from kernelarc_mcp.host.readable import readable
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.noise import calibration_view
from kernelarc_mcp.report import Report, report_of
from kernelarc_mcp.reporting.device import DeviceFacts, device_facts
from kernelarc_mcp.reporting.progress import Point, progress
from kernelarc_mcp.scores.campaign import campaign_times
from kernelarc_mcp.scores.dots import RooflineView, roofline_view

CONCLUSIONS = 200
"""The newest that a document holds."""


class WorkloadRow(Model):
    """One workload of the record; microseconds on the guard's clock, null where not measured."""

    uuid: str
    axes: dict[str, int]
    record_us: float | None
    seed_us: float | None
    reference_us: float | None


class ConclusionRow(Model):
    """One conclusion of the shared memory."""

    kind: str
    summary: str
    lesson: str
    evidence: str
    verdict: str
    agent: str
    lens: str
    seen: int


class Document(Report):
    """A campaign's report with all that a page shows; scripts read it, so fields are only added."""

    written_at: str
    version: str
    problem_digest: str
    seed_digest: str
    record_digest: str | None
    description: str
    """Of the problem, by its definition."""
    parameters: Parameters
    """Of the KEEP rule."""
    measured_on: DeviceFacts
    protection: dict[str, str]
    """What stood around the candidates in the record's confirmation, else in the last judgement."""
    workloads: list[WorkloadRow]
    times: str
    """Where their times are from; why there are none, where there are none."""
    progress: list[Point]
    roofline: RooflineView
    conclusions: list[ConclusionRow]
    conclusions_stored: int
    findings: list[str]
    """What `verify` found; empty: every counter and verdict follows from the rows."""


def read_document(folder: Path, version: str) -> Document:
    """Read a campaign, and verify it; CampaignError where there is none."""
    with readable(folder) as campaign:
        report = report_of(campaign, ToldSoFar(campaign))
        findings = verify(campaign.journal.ledger.folder)
        workloads, said = _workloads(campaign)
        conclusions, stored = _conclusions(campaign)
        with campaign.journal.reading() as state:
            created = state.campaign
            known = state.attempts.get(state.record.ticket)
            judged = _judged(state, known)
            return Document(
                **_shared(report),
                written_at=datetime.now(UTC).isoformat(timespec="seconds"),
                version=version,
                problem_digest=created.problem_digest,
                seed_digest=created.seed_digest,
                record_digest=known.solution_digest if known else created.seed_digest,
                description=campaign.problem.definition.description,
                parameters=created.settings.parameters,
                measured_on=device_facts(campaign, state),
                protection=judged.protection if judged else {},
                workloads=workloads,
                times=said,
                progress=progress(state),
                roofline=roofline_view(campaign, state),
                conclusions=conclusions,
                conclusions_stored=stored,
                findings=findings,
            )


def _shared(report: Report) -> dict[str, Any]:
    """Return the fields of a report, its calibration warned of for what it is, not for its age."""
    fields: dict[str, Any] = {name: getattr(report, name) for name in Report.model_fields}
    if report.calibration is not None:
        at = datetime.fromisoformat(report.calibration.at)
        fields["calibration_view"] = calibration_view(report.calibration, "", at)
    return fields


def _judged(state: CampaignState, known: Attempt | None) -> Result | None:
    """Return the record's confirmation, else the last judgement there was."""
    if known is not None and known.confirmation is not None:
        return known.confirmation
    results = [a.confirmation or a.screen for a in reversed(state.attempts.values())]
    return next((result for result in results if result is not None), None)


def _workloads(campaign: Campaign) -> tuple[list[WorkloadRow], str]:
    try:
        times = campaign_times(campaign)
        seed = campaign_times(campaign, "seed")
    except BadRequest as error:
        return [], str(error)
    axes = {workload.uuid: workload.axes for workload in campaign.problem.workloads}
    first = {row.uuid: row.solution_us for row in seed.workloads}
    rows = []
    for row in times.workloads:
        rows.append(
            WorkloadRow(
                uuid=row.uuid,
                axes=axes.get(row.uuid, {}),
                record_us=row.solution_us,
                seed_us=first.get(row.uuid),
                reference_us=row.reference_us,
            )
        )
    return rows, times.source


def _conclusions(campaign: Campaign) -> tuple[list[ConclusionRow], int]:
    with campaign.journal.reading() as state:
        operator_class, position = state.campaign.operator_class, state.used
    page = memory_of(campaign).read(
        operator_class,
        campaign.settings.device,
        campaign.settings.memory_retention(),
        CONCLUSIONS,
        now=campaign.journal.now(),
        campaign=campaign.settings.name,
        position=position,
    )
    rows = [
        ConclusionRow(
            kind=one.kind,
            summary=one.summary,
            lesson=one.lesson,
            evidence=one.latest.evidence,
            verdict=one.latest.verdict,
            agent=one.first.agent,
            lens=one.first.lens,
            seen=one.seen,
        )
        for one in page.items
    ]
    return rows, page.stored
