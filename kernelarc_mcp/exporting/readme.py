"""What is said about one candidate: its README and the message of its commit."""

from kernelarc_guard.protocol import WorkloadReport
from kernelarc_guard.reasons import REASONS
from kernelarc_guard.words import axes_in_words
from kernelarc_mcp.exporting.candidates import Candidates, Judged


def headline(candidate: Judged) -> str:
    """Return one line: verdict, gain, what was tried."""
    if not candidate.verdict:
        return f"Seed: {candidate.solution.name}"
    gain = "" if candidate.speedup is None else f" {candidate.speedup:.3f}x"
    said = (candidate.summary.strip().splitlines() or [candidate.ticket])[0]
    return f"{candidate.verdict}{gain}: {said[:100]}"


def facts(found: Candidates, candidate: Judged) -> list[tuple[str, str]]:
    """Return what is known of a candidate, as names and values."""
    if not candidate.verdict:
        return [("Campaign", found.campaign), ("Device", found.device)]
    lines = [("Verdict", f"{candidate.verdict} {candidate.reason} ({candidate.stage})")]
    if candidate.withdrawn:
        lines.append(("Withdrawn", f"{candidate.withdrawn}: {REASONS[candidate.withdrawn].says}"))
    if candidate.speedup is not None:
        proven = "" if candidate.lower is None else f", proven above {candidate.lower:.4f}x"
        lines.append(("Compared with", f"{candidate.against}: {candidate.speedup:.4f}x{proven}"))
    elif candidate.against:
        lines.append(("Compared with", candidate.against))
    if candidate.over_seed is not None:
        ratio = candidate.over_seed
        spread = f"{ratio.ratio:.4f}x, 95 % interval {ratio.lower:.4f} to {ratio.upper:.4f}"
        lines.append(("Over the seed", f"{spread}, {ratio.pairs} pairs"))
    lines += [
        ("Submission", f"{candidate.ticket}, attempt {candidate.number}"),
        ("Agent", candidate.agent),
        ("Lens", candidate.lens + (", answering a forced draft" if candidate.draft else "")),
        ("Campaign", found.campaign),
        ("Device", found.device + (f" ({found.machine})" if found.machine else "")),
    ]
    given = (candidate.algorithm, candidate.layout, candidate.model)
    named = zip(("Algorithm", "Layout", "Model"), given, strict=True)
    return lines + [(name, " ".join(value.split())) for name, value in named if value.strip()]


def message(found: Candidates, candidate: Judged) -> str:
    """Return the message of a candidate's commit."""
    facts_ = "\n".join(f"{name}: {value}" for name, value in facts(found, candidate))
    middle = [part for part in (candidate.summary.strip(), candidate.detail.strip()) if part]
    return "\n\n".join([headline(candidate), *middle, facts_]) + "\n"


def readme(found: Candidates, candidate: Judged, *, tested: bool) -> str:
    """Return the README of a candidate's tree, in Markdown."""
    parts = [f"# {candidate.solution.definition}: {headline(candidate)}"]
    parts += [part for part in (candidate.summary.strip(), candidate.detail.strip()) if part]
    parts.append(_table(("", ""), facts(found, candidate)))
    timed = [row for row in candidate.workloads if row.candidate_us or row.reason]
    if timed:
        parts.append("Medians of its last comparison, on the guard's clock:")
        header = ("workload", "record us", "candidate us", "largest error")
        parts.append(_table(header, [_row(one) for one in timed]))
    parts.append(
        "`solution/` is the kernel with its `solution.json`, `problem/` the definition and workloads"
        " in SOL-ExecBench form."
    )
    if tested:
        parts.append(
            "`record/` is what it was compared with. Judge it again, with `kernelarc-mcp[guard]`"
            " installed:\n\n    python -m pytest test_kernel.py\n\nor, for the numbers,\n\n"
            f"    kernelarc-mcp evaluate --device {found.device} --problem problem --solution solution"
            " --record record"
        )
    return "\n\n".join(parts) + "\n"


def _row(report: WorkloadReport) -> tuple[str, ...]:
    axes = axes_in_words(report.axes, report.uuid)
    if report.reason:
        return axes, "", report.reason, _number(report.max_absolute_error)
    return (
        axes,
        _number(report.record_us),
        _number(report.candidate_us),
        _number(report.max_absolute_error),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]] | list[tuple[str, str]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
