"""The problem on the page: in words, and the record's times on its workloads."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelarc_guard.model import Model
from kernelarc_mcp.host.board_parts import ratio_view
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.reporting.problem import problem_facts, problem_lines
from kernelarc_mcp.reporting.workloads import WorkloadRow, axes_of, workload_rows
from kernelarc_mcp.views import RatioView


class WorkloadBar(Model):
    """One workload of the record; microseconds."""

    name: str
    record_us: float | None
    seed_us: float | None
    """Measured beside the record."""
    over_seed: RatioView | None
    """Pair by pair; null before the first KEEP."""
    least_us: float | None
    """What the device needs at least."""


class ProblemLines(Model):
    """The problem in words."""

    said: str
    """In one line."""
    facts: list[tuple[str, str]]
    """Names and values."""


@dataclass
class Timed:
    """The record's times, read from the ledger once for each record."""

    _of: tuple[str, int] = ("", -1)
    _rows: list[WorkloadRow] = field(default_factory=list)

    def bars(
        self, campaign: Campaign, state: CampaignState, least: Mapping[str, float]
    ) -> list[WorkloadBar]:
        """Return a bar for each workload, none before anything was timed; `least` is by uuid."""
        of = (state.record.ticket, len(state.baselines))
        # The seed's times come with the first comparison.
        if of != self._of or not self._rows:
            self._of, self._rows = of, workload_rows(campaign)[0]
        return [
            WorkloadBar(
                name=axes_of(row),
                record_us=row.record_us,
                seed_us=row.seed_us,
                over_seed=ratio_view(row.over_seed),
                least_us=least.get(row.uuid),
            )
            for row in self._rows
        ]


def problem_in_words(campaign: Campaign, state: CampaignState) -> ProblemLines:
    """Return what a campaign searches a faster solution of."""
    facts = problem_facts(campaign, state)
    count = len(facts.workloads)
    said = facts.description.strip().rstrip(".") or campaign.problem.definition.name
    said += f" ({facts.operator_class}; {', '.join(facts.dtypes) or 'no tensors'};"
    said += f" {count} workload{'' if count == 1 else 's'})"
    return ProblemLines(said=f"{said}.", facts=problem_lines(facts))
