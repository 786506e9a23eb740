"""What the ledger says, as metrics: read anew at every scrape, and counted nowhere else."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kernelarc_guard.reasons import REASONS
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.host.tickets import noted

GUARD_STATES: Final = ("idle", "calibrating", "judging", "remeasuring", "held_up", "quarantined")
HELD_UP: Final = "Nothing is judged"
"""How the dispatcher begins to say why it cannot judge."""


class LedgerMetrics(Collector):
    """Collects from a campaign's state.

    No label is anything an agent may choose: verdicts, reasons and states come from fixed lists.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as the newest rows have them."""
        with self._campaign.journal.reading() as state:
            now = _guard_state(state, noted(self._campaign))
            yield _verdicts(state)
            yield CounterMetricFamily(
                "kernelarc_attempts_charged", "Attempts charged to all agents.", state.used
            )
            yield _gauge("attempts_left", "Attempts nobody has used yet.", state.total - state.used)
            waiting = sum(attempt.state == "queued" for attempt in state.attempts.values())
            yield _gauge("queue_length", "Submissions that wait to be judged.", waiting)
            yield _gauge("judging", "Submissions being judged.", len(state.judging()))
            yield _gauge("agents", "Agents of the campaign.", len(state.agents))
            states = GaugeMetricFamily(
                "kernelarc_guard_state", "1 for what the guard does now.", labels=["state"]
            )
            for known in GUARD_STATES:
                states.add_metric([known], float(known == now))
            yield states
            yield from _record(state)
            left = sum(state.wealth.values())
            yield _gauge("error_budget_left", "Error budget left to all shares together.", left)
            yield CounterMetricFamily(
                "kernelarc_device_seconds",
                "How long the device was held for submissions and profiles.",
                state.device_ns / 1e9,
            )


def _gauge(name: str, says: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kernelarc_{name}", says, value)


def _verdicts(state: CampaignState) -> Metric:
    done = Counter((a.verdict, a.reason) for a in state.attempts.values() if a.verdict is not None)
    family = CounterMetricFamily(
        "kernelarc_submissions", "Submissions by verdict and reason.", labels=["verdict", "reason"]
    )
    for reason, about in REASONS.items():
        for verdict in sorted(about.verdicts):
            family.add_metric([verdict, reason], done.pop((verdict, reason), 0))
    # A ledger of another version may know more.
    family.add_metric(["other", "other"], sum(done.values()))
    return family


def _record(state: CampaignState) -> Iterator[Metric]:
    step = state.record
    yield _gauge("record_ratio", "The record over the seed; 1 for the seed.", step.speedup)
    bounds = GaugeMetricFamily(
        "kernelarc_record_ratio_bound", "95 % interval of the record's ratio.", labels=["bound"]
    )
    if step.over_seed is not None:
        bounds.add_metric(["lower"], step.over_seed.lower)
        bounds.add_metric(["upper"], step.over_seed.upper)
    yield bounds
    standing = sum(not record.withdrawn for record in state.records) - 1
    yield _gauge("records", "KEEPs that stand.", standing)


def _guard_state(state: CampaignState, note: str) -> str:
    if state.quarantined:
        return "quarantined"
    if note.startswith(HELD_UP):
        return "held_up"
    if state.judging():
        return "judging"
    if state.calibration is None or state.calibration_asked is not None:
        return "calibrating"
    return "remeasuring" if state.suspect is not None else "idle"
