"""`export`: take candidates out of a campaign."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kernelarc_guard.formats.documents import dump_document
from kernelarc_guard.formats.results import STATUSES, traces_of
from kernelarc_guard.formats.traces import Environment, append_traces
from kernelarc_guard.formats.writing import flashinfer_solution, plain_workload, solution_document
from kernelarc_guard.problem import read_documents
from kernelarc_guard.solution import reference_solution
from kernelarc_mcp.cli.console import UserError, counted, err, out
from kernelarc_mcp.cli.options import CampaignDir
from kernelarc_mcp.exporting.candidates import Candidates, Judged, candidates, renamed
from kernelarc_mcp.exporting.git import write_repository
from kernelarc_mcp.exporting.tree import problem_files, tree_of, write_tree
from kernelarc_mcp.host.campaign import PROBLEM, Campaign, open_campaign

Form = Literal["sol", "flashinfer"]


def export(
    folder: CampaignDir,
    target: Annotated[
        Path,
        typer.Option(
            "--out", metavar="PATH", help="What to write: a new file, or a new or empty folder."
        ),
    ],
    to: Annotated[
        Literal["solution", "trace", "git", "folder"],
        typer.Option(
            help="A solution.json; the traces of all judged candidates; a git repository with a"
            " branch per agent and a commit per judged candidate; or a folder with the kernel,"
            " its test and README."
        ),
    ] = "folder",
    submission: Annotated[
        str,
        typer.Option(help="Ticket of the candidate, `seed` or `record`; not with --to git|trace."),
    ] = "record",
    form: Annotated[
        Form, typer.Option(help="Of a solution and of traces: whose benchmark reads them.")
    ] = "sol",
) -> None:
    """Write a campaign's candidates in a form that stands alone.

    Nothing that exists is written over; traces are added to an existing file.
    """
    if to in ("git", "trace") and submission != "record":
        raise UserError(f"--submission: --to {to} takes all judged candidates")
    if to in ("git", "folder") and target.exists() and not _empty_folder(target):
        raise UserError(f"--out: {target}: expected a new or an empty folder")
    campaign = open_campaign(folder)
    try:
        found = candidates(campaign)
        try:
            said = _write(campaign, found, target, to, submission, form)
        except OSError as error:
            raise UserError(f"--out: {target}: cannot be written: {error.strerror}") from None
    finally:
        campaign.close()
    out.print(said, markup=False)


def _write(
    campaign: Campaign, found: Candidates, target: Path, to: str, submission: str, form: Form
) -> str:
    if to == "git":
        refs = write_repository(target, found, problem_files(campaign))
        kept = sum(ref.startswith("refs/tags/keep/") for ref in refs)
        return (
            f"{counted(len(found.judged) - 1, 'judged candidate')}, {kept} kept,"
            f" of {counted(len(found.branches), 'agent')}"
            f" written to {target}: `main` is the record, `git log --graph --all` the search"
        )
    if to == "trace":
        return _traces(campaign, found, target, form)
    chosen = found.named(submission)
    if to == "folder":
        write_tree(target, tree_of(found, chosen, problem_files(campaign)))
        return f"{chosen.ticket} with its problem, test and README written to {target}"
    return _solution(chosen, target, form)


def _empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _solution(chosen: Judged, target: Path, form: Form) -> str:
    document = solution_document(renamed(chosen.solution, chosen))
    document["description"] = chosen.summary
    if form == "flashinfer":
        try:
            document = flashinfer_solution(document)
        except ValueError as error:
            raise UserError(f"--form flashinfer: {error}") from None
    with target.open("x", encoding="utf-8") as file:
        file.write(dump_document(document))
    return f"{chosen.ticket} written to {target}"


def _traces(campaign: Campaign, found: Candidates, target: Path, form: Form) -> str:
    lines = read_documents(campaign.folder / PROBLEM, "workload.jsonl").workloads
    workloads = {one["uuid"]: one for one in map(plain_workload, lines)}
    reference = reference_solution(campaign.problem.definition).digest
    traces: list[dict[str, Any]] = []
    left, skipped = 0, []
    for one in found.judged.values():
        if not one.verdict:
            continue
        failed = None
        if one.verdict in ("REJECT", "REVERT") and one.stage not in (None, "timing"):
            if one.reason not in STATUSES:  # nothing of its own failed: a duplicate, a lost guard
                skipped.append(f"{one.ticket} ({one.reason})")
                continue
            failed = (one.reason, one.stage, one.detail)
        written, missing = traces_of(
            campaign.problem.definition.name,
            one.ticket,
            workloads,
            one.workloads,
            failed=failed,
            reference=found.judged[one.against].solution.digest == reference,
            environment=Environment(hardware=found.machine or found.device, libs={}),
            form=form,
            at=one.settled_at,
        )
        traces += written
        left += len(missing)
    append_traces(target, traces)
    if skipped:
        err.print(f"warning: no trace says what befell {', '.join(skipped)}", markup=False)
    if left:
        told = (
            "1 workload was not timed and has"
            if left == 1
            else f"{left} workloads were not timed and have"
        )
        err.print(f"warning: {told} no trace", markup=False)
    judged = len(found.judged) - 1 - len(skipped)
    return f"{counted(len(traces), 'trace')} of {counted(judged, 'candidate')} added to {target}"
