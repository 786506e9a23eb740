"""All that a report says of a campaign, as one document; the page and the texts are made from it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelarc_guard.decide import Parameters
from kernelarc_guard.model import Model
from kernelarc_guard.protocol import Result
from kernelarc_mcp.cost.told import ToldSoFar
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.conclusions import shown_conclusions
from kernelarc_mcp.host.readable import readable
from kernelarc_mcp.host.settings import CampaignSettings
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.host.submit import solution_of
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.noise import calibration_view
from kernelarc_mcp.report import Report, report_of
from kernelarc_mcp.reporting.device import DeviceFacts, device_facts
from kernelarc_mcp.reporting.problem import ProblemFacts, problem_facts
from kernelarc_mcp.reporting.progress import Point, progress
from kernelarc_mcp.reporting.workloads import WorkloadRow, workload_rows
from kernelarc_mcp.scores.dots import RooflineView, roofline_view

CONCLUSIONS = 200
"""The newest that a document holds."""


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


class KernelFile(Model):
    """A source of the record."""

    path: str
    content: str


class Document(Report):
    """A campaign's report with all that a page shows; scripts read it, so fields are only added."""

    written_at: str
    last_verdict_at: str
    """Empty before the first."""
    version: str
    problem_digest: str
    seed_digest: str
    record_digest: str | None
    description: str
    """Of the problem, by its definition."""
    about: ProblemFacts
    settings: CampaignSettings
    """What the campaign was created with."""
    ledger_rows: int
    ledger_head: str
    """Hash of the ledger's last row: whoever has it has these very rows."""
    record_files: list[KernelFile]
    """The record's sources; none where the seed is the record."""
    record_stake: float | None
    """What the record's confirmation risked; null for the seed."""
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
        conclusions, stored = _conclusions(campaign)
        with campaign.journal.reading() as state:
            created = state.campaign
            known = state.attempts.get(state.record.ticket)
            judged = _judged(state, known)
            roofline = roofline_view(campaign, state)
            workloads, said = workload_rows(campaign, roofline.least_us)
            return Document(
                **_shared(report),
                written_at=datetime.now(UTC).isoformat(timespec="seconds"),
                last_verdict_at=max(
                    (one.settled_at for one in state.attempts.values()), default=""
                ),
                version=version,
                problem_digest=created.problem_digest,
                seed_digest=created.seed_digest,
                record_digest=known.solution_digest if known else created.seed_digest,
                description=campaign.problem.definition.description,
                about=problem_facts(campaign, state),
                settings=created.settings,
                ledger_rows=state.seq,
                ledger_head=state.head,
                record_files=_files(campaign, state, known),
                record_stake=_stake(known),
                parameters=created.settings.parameters,
                measured_on=device_facts(campaign, state),
                protection=judged.protection if judged else {},
                workloads=workloads,
                times=said,
                progress=progress(state),
                roofline=roofline,
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


def _stake(known: Attempt | None) -> float | None:
    result = known.confirmation if known is not None else None
    return result.decision.stake if result is not None and result.decision is not None else None


def _judged(state: CampaignState, known: Attempt | None) -> Result | None:
    """Return the record's confirmation, else the last judgement there was."""
    if known is not None and known.confirmation is not None:
        return known.confirmation
    results = [a.confirmation or a.screen for a in reversed(state.attempts.values())]
    return next((result for result in results if result is not None), None)


def _conclusions(campaign: Campaign) -> tuple[list[ConclusionRow], int]:
    """Return those that the memory shows, wins first, of each kind the newest first."""
    shown, stored = shown_conclusions(campaign, CONCLUSIONS)
    rows = [
        ConclusionRow(
            kind=one.kind,
            summary=one.summary,
            lesson=one.lesson,
            evidence=one.evidence,
            verdict=one.verdict,
            agent=one.agent,
            lens=one.lens,
            seen=one.seen,
        )
        for one in shown
    ]
    return sorted(rows, key=lambda row: row.kind != "win"), stored


def _files(campaign: Campaign, state: CampaignState, known: Attempt | None) -> list[KernelFile]:
    if known is None:
        return []
    solution = solution_of(campaign, state, known.ticket)
    return [KernelFile(path=one.path, content=one.content) for one in solution.sources]
