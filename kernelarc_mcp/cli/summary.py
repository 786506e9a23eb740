"""A campaign's report as tables."""

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from kernelarc_mcp.cli.console import out
from kernelarc_mcp.noise import one_line, toolchain_line
from kernelarc_mcp.report import Report
from kernelarc_mcp.views import UsageView

MOST_RECORDS = 30
"""The newest that are shown."""
MOST_SUBMISSIONS = 200
MOST_FAILED = 3
"""The newest records of a model's board of which is said that they failed there."""
COLOURS = {"KEEP": "bold green", "ACCEPT": "cyan", "REVERT": "yellow", "REJECT": "red"}


def coloured(verdict: str | None) -> str:
    """Return a verdict in its colour."""
    return f"[{COLOURS.get(verdict or '', 'white')}]{verdict or ''}[/]"


def print_summary(report: Report) -> None:
    """Print where the campaign stands: agents, verdicts, records."""
    out.print(summary(report))


def summary(report: Report) -> Group:
    """Return where the campaign stands, to be printed."""
    parts: list[RenderableType] = [
        f"[bold]{escape(report.campaign)}[/]: {escape(report.problem)} on {report.device}, "
        f"{report.attempts_used} of {report.attempts} attempts used, {report.queued} queued, "
        f"{len(report.judging)} being judged"
    ]
    if report.device_model or report.in_flight > 1:
        parts.append(escape(_of_fleets(report)))
    parts += [escape(f"Now: {line}") for line in report.activity]
    if report.quarantined:
        parts.append(f"[bold red]device_quarantined[/]: {escape(report.quarantined)}")
    parts += [_board(report), *_others(report), *_noise(report), _agents(report)]
    if any(row.attempts for row in report.lenses):
        parts.append(_lenses(report))
    parts += _costs(report)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(report.verdicts.items()))
    parts.append(f"Verdicts: {counts or 'none yet'}; drafts forced: {report.drafts_forced}")
    return Group(*parts)


def _of_fleets(report: Report) -> str:
    """Return what the campaign says of fleets, by its settings' names."""
    said = {
        "device_model": report.device_model,
        "extra_models": ", ".join(report.extra_models),
        "in_flight": report.in_flight if report.in_flight > 1 else "",
    }
    return f"In a fleet: {'; '.join(f'{name} {value}' for name, value in said.items() if value)}"


def _board(report: Report) -> Table:
    """Return the records, best first, between the lines to beat."""
    table = Table("record", "agent", "over the seed", "proven gain", "attempt", title="Board")
    left = len(report.records) - MOST_RECORDS
    for step in list(reversed(report.records))[:MOST_RECORDS]:
        proven = "" if step.lower is None else f"> {step.lower:.4f}x"
        spread = step.over_seed
        shown = "" if spread is None else f" [{spread.lower:.3f}, {spread.upper:.3f}]"
        table.add_row(
            step.submission + (f" ({step.withdrawn})" if step.withdrawn else ""),
            escape(step.agent or ""),
            escape(f"{step.speedup:.3f}x{shown}"),
            proven,
            str(step.at_attempt),
        )
    if left > 0:
        table.add_row(f"({left} earlier ones: report)", "", "", "", "", style="dim")
    for known in report.baselines:
        shown = "not measured" if known.speedup is None else f"{known.speedup:.3f}x"
        table.add_row(f"({known.name})", "", shown, "", "", style="dim")
    return table


def _others(report: Report) -> list[str]:
    """Return how the records do on other models, a line or two for each."""
    found = []
    for board in report.other_models:
        found.append(escape(f"On {board.model}: {board.words}"))
        found += [
            escape(f"  {row.record} failed there: {row.detail}")
            for row in board.rows[:MOST_FAILED]
            if row.over_seed is None
        ]
    return found


def _noise(report: Report) -> list[str]:
    """Return the campaign's calibration and its canaries."""
    if report.calibration is None or report.calibration_view is None:
        return ["Calibration: none yet"]
    found = [escape(f"Calibration of {report.calibration_view.at}: {one_line(report.calibration)}")]
    if versions := toolchain_line(report.calibration):
        found.append(escape(f"Measured with {versions}"))
    found += [f"[yellow]warning[/]: {escape(one)}" for one in report.calibration_view.warnings]
    seen = report.canaries
    if seen.same or seen.delayed:
        low, high = seen.same_bounds
        least, most = seen.delayed_bounds
        found.append(
            f"Canaries: {seen.same_hits} of {seen.same} A/A with p <= 0.05 ({low:.1%} to {high:.1%}),"
            f" {seen.delayed_seen} of {seen.delayed} planted delays seen ({least:.0%} to {most:.0%})"
        )
    return found


def _agents(report: Report) -> Table:
    """Return each agent's standing."""
    headings = ["agent", "lens", "used", "left", "r", "drafts", "branch", "verdicts", "best"]
    told = any(agent.usage for agent in report.agents)
    table = Table(*headings, *(["the client's runs, tokens, USD"] if told else []))
    for agent in report.agents:
        verdicts = " ".join(f"{key}:{count}" for key, count in sorted(agent.verdicts.items()))
        table.add_row(
            escape(agent.agent),
            agent.lens or "-",
            str(agent.attempts_used),
            str(agent.attempts_left),
            str(agent.r),
            f"{agent.drafts_made}/{agent.drafts_forced}" + (" DRAFT" if agent.drafting else ""),
            agent.branch,
            verdicts,
            "" if agent.best is None else f"{agent.best:.3f}x",
            *([used(agent.usage)] if told else []),
        )
    return table


def _costs(report: Report) -> list[RenderableType]:
    """Return what the search cost; one line where nobody said anything."""
    costs = report.costs
    if not costs.total.spent.of:
        return [escape(f"Cost: {' '.join(costs.notes)}")]
    table = Table("cost", "tokens", "money", "KEEPs", "per KEEP", "per 1 % gained")
    for row in [*costs.agents, costs.total]:
        table.add_row(
            escape(row.agent) or "all together",
            row.tokens,
            row.usd,
            str(row.keeps),
            f"{row.keep_tokens}, {row.keep_usd}" if row.keeps else row.keep_usd,
            f"{row.percent_tokens}, {row.percent_usd}" if row.keeps else row.percent_usd,
        )
    return [table, *(escape(note) for note in costs.notes)]


def used(usage: UsageView | None) -> str:
    """Return what a client said it used; a sum that some runs are missing from says so."""
    if usage is None:
        return ""

    def part(known: int) -> str:
        return "" if known == usage.runs else f" (of {known} runs)"

    tokens = "unknown"
    if usage.runs_with_tokens:
        tokens = f"{usage.input_tokens} + {usage.output_tokens}{part(usage.runs_with_tokens)}"
    cost = "unknown"
    if usage.cost_usd is not None:
        cost = f"{usage.cost_usd:.4f}{part(usage.runs_with_cost)}"
    return f"{usage.runs}, {tokens}, {cost}"


def _lenses(report: Report) -> Table:
    """Return what each lens brought, where anything was tried."""
    rows = [row for row in report.lenses if row.attempts]
    table = Table("lens", "attempts", "KEEPs", "its KEEPs together", "each attempt", "device s")
    for row in rows:
        each = row.gain_per_attempt
        table.add_row(
            row.lens,
            str(row.attempts),
            str(row.keeps),
            f"{1 + row.gain_percent / 100:.3f}x" if row.keeps else "",
            "" if each is None or not row.keeps else f"{1 + each / 100:.4f}x",
            f"{row.device_seconds:.1f}",
        )
    return table


def print_submissions(report: Report) -> None:
    """Print the newest attempts."""
    table = Table("submission", "agent", "verdict", "reason", "speedup", "lens", "s", "summary")
    left = len(report.submissions) - MOST_SUBMISSIONS
    if left > 0:
        out.print(f"{left} earlier attempts are in the report's files.")
    for row in report.submissions[-MOST_SUBMISSIONS:]:
        table.add_row(
            row.submission + (" (draft)" if row.draft else ""),
            escape(row.agent),
            coloured(row.verdict) if row.verdict else row.state,
            row.reason or "",
            "" if row.speedup is None else f"{row.speedup:.4f}",
            row.lens,
            f"{row.seconds:.1f}",
            escape(row.summary[:60]),
        )
    out.print(table)
