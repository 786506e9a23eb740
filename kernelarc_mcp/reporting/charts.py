"""Options of the report's charts, for ECharts: plain data, drawn where the page is opened."""

from collections.abc import Sequence
from typing import Final

from kernelarc_mcp.pages.writing import Options
from kernelarc_mcp.reporting.document import Document
from kernelarc_mcp.reporting.progress import Point
from kernelarc_mcp.reporting.roofline import roofline_chart
from kernelarc_mcp.reporting.thinning import thinned
from kernelarc_mcp.reporting.workloads import WorkloadRow, axes_of, times_as_fast

MOST_MARKS: Final = 2_000
"""Single candidates drawn in one chart; beyond, the lowest and the highest of each stretch."""
PALETTE: Final = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#8c6d31",
    "#7f7f7f",
)
"""Okabe and Ito's colours, told apart without red and green, the last two ours."""


def charts(document: Document) -> dict[str, Options]:
    """Return each chart's options by the id of its place in the page; none where nothing is known."""
    found: dict[str, Options] = {}
    if document.progress:
        found["by-attempt"] = best_so_far(document.progress, "judged", "verdicts")
        found["by-seconds"] = best_so_far(document.progress, "device_seconds", "device seconds")
    if any(row.record_us for row in document.workloads):
        found["workloads"] = workload_bars(document.workloads)
    if document.roofline.dots:
        found["roofline"] = roofline_chart(document.roofline)
    return found


def best_so_far(points: Sequence[Point], key: str, name: str) -> Options:
    """Return the best record over verdicts or seconds, with each confirmed candidate by agent."""
    steps = [[0, 1.0]]
    for point in points:
        if point.best != steps[-1][1]:
            steps.append([_place(point, key), point.best])
    steps.append([_place(points[-1], key), points[-1].best])
    agents = sorted({point.agent for point in points})
    series: list[Options] = [
        {
            "name": "best record",
            "type": "line",
            "step": "end",
            "symbol": "none",
            "lineStyle": {"width": 2, "color": "#888888"},
            "itemStyle": {"color": "#888888"},
            "data": steps,
        }
    ]
    confirmed = [point for point in points if point.over_seed is not None]
    shown = thinned(confirmed, MOST_MARKS, lambda point: point.over_seed or 0.0)
    for number, agent in enumerate(agents):
        series.append(
            {
                "name": agent,
                "type": "scatter",
                "symbolSize": 9,
                "itemStyle": {"color": PALETTE[number % len(PALETTE)]},
                "data": [_mark(one, key) for one in shown if one.agent == agent],
            }
        )
    return {
        "xAxis": {"type": "value", "name": name, "nameLocation": "middle", "nameGap": 28},
        "yAxis": {"type": "value", "name": "times the seed's speed", "scale": True},
        "series": series,
    }


def workload_bars(rows: Sequence[WorkloadRow]) -> Options:
    """Return the record's speedup over seed and reference, by workload."""
    names = [axes_of(row) for row in rows]
    kinds = {"over the seed": "seed_us", "over the reference": "reference_us"}
    series = [
        {
            "name": name,
            "type": "bar",
            "itemStyle": {"color": PALETTE[number]},
            "data": [_ratio(getattr(row, field), row.record_us) for row in rows],
        }
        for number, (name, field) in enumerate(kinds.items())
    ]
    return {
        "xAxis": {"type": "category", "data": names, "axisLabel": {"rotate": 30}},
        "yAxis": {"type": "value", "name": "times as fast"},
        "series": series,
    }


def hollow(point: Point) -> bool:
    """Return whether it was measured faster than the record that stands, and is not one."""
    return point.over_seed is not None and point.over_seed > point.best


def _mark(point: Point, key: str) -> Options:
    mark: Options = {"value": [_place(point, key), point.over_seed], "name": _label(point)}
    return mark | {"symbol": "emptyCircle"} if hollow(point) else mark


def _place(point: Point, key: str) -> float:
    return round(float(getattr(point, key)), 3)


def _label(point: Point) -> str:
    return f"{point.submission} {point.verdict}"


def _ratio(other: float | None, mine: float | None) -> float | None:
    ratio = times_as_fast(other, mine)
    return None if ratio is None else round(ratio, 3)
