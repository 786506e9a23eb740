"""The metrics of several campaigns as one: each sample says with a label whose it is."""

import sqlite3
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.several.served import ServedCampaign
from kernelarc_mcp.several.standing import STATES


class Labelled(Collector):
    """Collects from a server's own registry, and from those of some of its campaigns."""

    def __init__(self, own: CollectorRegistry, campaigns: Sequence[ServedCampaign]) -> None:
        """What is in `own` belongs to no campaign and gets no label."""
        self._own = own
        self._campaigns = campaigns

    def collect(self) -> Iterator[Metric]:
        """Yield each family once, with the samples of all; a campaign that cannot be read has none."""
        families: dict[str, Metric] = {metric.name: metric for metric in self._own.collect()}
        for campaign in self._campaigns:
            try:
                found = list(campaign.metrics.registry.collect())
            except (HostError, sqlite3.Error):
                continue
            for metric in found:
                empty = Metric(metric.name, metric.documentation, metric.type)
                family = families.setdefault(metric.name, empty)
                for sample in metric.samples:
                    labels = {"campaign": campaign.name, **sample.labels}
                    family.samples.append(sample._replace(labels=labels))
        yield from families.values()
        yield self._states()

    def _states(self) -> Metric:
        family = GaugeMetricFamily(
            "kernelarc_campaign_state",
            "1 for how the server stands to a campaign.",
            labels=["campaign", "state"],
        )
        for campaign in self._campaigns:
            now = campaign.standing().state
            for state in STATES:
                family.add_metric([campaign.name, state], float(state == now))
        return family
