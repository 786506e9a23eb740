"""The record by workload: its times, and which of them its speedup comes from."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from kernelarc_guard.model import Model
from kernelarc_guard.ratios import Ratio
from kernelarc_guard.words import axes_in_words
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import BadRequest
from kernelarc_mcp.scores.campaign import campaign_times

_MOST: Final = 0.5
"""A workload with a larger part of the gain is named with what the others have without it."""


class WorkloadRow(Model):
    """One workload of the record; microseconds on the guard's clock, null where not measured."""

    uuid: str
    axes: dict[str, int]
    record_us: float | None
    seed_us: float | None
    reference_us: float | None
    over_seed: Ratio | None = None
    """The record over the seed, pair by pair; weighted together they are its speedup."""
    least_us: float | None = None
    """What the device needs at least, by the roofline."""
    weight: float = 1.0
    """In the geometric mean."""


def workload_rows(
    campaign: Campaign, least: Mapping[str, float] | None = None
) -> tuple[list[WorkloadRow], str]:
    """Return the rows and where their times are from; no row, and why, where there are none.

    `least` has the bounds by uuid, in microseconds.
    """
    try:
        times = campaign_times(campaign)
        first = campaign_times(campaign, "seed")
    except BadRequest as error:
        return [], str(error)
    problem = campaign.problem
    axes = {workload.uuid: workload.axes for workload in problem.workloads}
    weights = {
        workload.uuid: weight
        for workload, weight in zip(problem.workloads, problem.weights(), strict=True)
    }
    seed = {row.uuid: row.solution_us for row in first.workloads}
    rows = [
        WorkloadRow(
            uuid=row.uuid,
            axes=axes.get(row.uuid, {}),
            record_us=row.solution_us,
            seed_us=row.seed_us or seed.get(row.uuid),
            reference_us=row.reference_us,
            over_seed=row.over_seed,
            least_us=(least or {}).get(row.uuid),
            weight=weights.get(row.uuid, 0.0),
        )
        for row in times.workloads
    ]
    return rows, times.source


def axes_of(row: WorkloadRow) -> str:
    """Return a workload's axes in words, its uuid where it has none."""
    return axes_in_words(row.axes, row.uuid)


def times_as_fast(other_us: float | None, record_us: float | None) -> float | None:
    """Return how many times as fast the record is, a ratio of medians; None where one is missing."""
    return other_us / record_us if other_us and record_us else None


def gain_over_seed(row: WorkloadRow) -> float | None:
    """Return how many times as fast as the seed the record is: of its pairs, else of the medians."""
    if row.over_seed is not None:
        return row.over_seed.ratio
    return times_as_fast(row.seed_us, row.record_us)


def of_bound(row: WorkloadRow) -> float | None:
    """Return which share (of 1) of the device's best the record reaches; None where it is unknown."""
    return times_as_fast(row.least_us, row.record_us)


def spread_over_workloads(rows: Sequence[WorkloadRow]) -> str:
    """Say over the seed how the gain differs by workload, and which one makes most of it; or nothing."""
    ratios = [(row, gain_over_seed(row)) for row in rows if row.weight]
    logs = [(row, row.weight * math.log(ratio)) for row, ratio in ratios if ratio]
    if len(logs) < 2 or len(logs) < len(ratios):
        return ""
    found = [ratio for _, ratio in ratios if ratio]
    said = f"By workload {min(found):.2f} to {max(found):.2f} times"
    if any(row.over_seed is None for row, _ in logs):
        said += " (ratios of medians)"
    whole = sum(log for _, log in logs)
    most, own = max(logs, key=lambda one: one[1])
    if whole <= 0 or own <= _MOST * whole:
        return f"{said}."
    rest = sum(row.weight for row, _ in logs) - most.weight
    without = math.exp((whole - own) / rest)
    return (
        f"{said}: {axes_of(most)} alone makes {100 * own / whole:.0f} % of the gain (of its logarithm);"
        f" the geometric mean without it is {without:.2f} times."
    )
