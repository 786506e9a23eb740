"""Options of the report's charts, for ECharts: plain data, drawn where the page is opened."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from kernelarc_mcp.pages.writing import Options
from kernelarc_mcp.reporting.document import Document
from kernelarc_mcp.reporting.progress import Point
from kernelarc_mcp.reporting.roofline import roofline_chart
from kernelarc_mcp.reporting.thinning import thinned
from kernelarc_mcp.reporting.workloads import (
    WorkloadRow,
    axes_of,
    gain_over_seed,
    times_as_fast,
)

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
        rivals = {one.name: one.speedup for one in document.baselines if one.speedup is not None}
        for place, key, name in (
            ("by-attempt", "judged", "verdicts"),
            ("by-seconds", "device_seconds", "device seconds"),
        ):
            found[place] = best_so_far(document.progress, key, name, rivals)
    if any(row.record_us for row in document.workloads):
        found["workloads"] = workload_dots(document.workloads)
    if document.roofline.dots:
        found["roofline"] = roofline_chart(document.roofline)
    return found


def best_so_far(
    points: Sequence[Point], key: str, name: str, rivals: Mapping[str, float]
) -> Options:
    """Return the best record over verdicts or seconds, with each confirmed candidate by agent.

    `rivals` are lines to beat: how many times as fast as the seed each is.
    """
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
            "markLine": {
                "silent": True,
                "symbol": "none",
                "lineStyle": {"type": "dashed", "width": 1.5, "color": "#888888"},
                "data": [
                    {"yAxis": ratio, "label": {"formatter": rival, "position": "insideEndTop"}}
                    for rival, ratio in rivals.items()
                ],
            },
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
    heights = [height for _, height in steps] + [one.over_seed or 1.0 for one in shown]
    low, high = _ends([*heights, *rivals.values()])
    return {
        "xAxis": {"type": "value", "name": name, "nameLocation": "middle", "nameGap": 28},
        "yAxis": {"type": "value", "name": "times the seed's speed", "min": low, "max": high},
        "series": series,
    }


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return round ends of an axis that has room for all of the values."""
    low, high = min(values), max(values)
    step = 10.0 ** math.floor(math.log10(max(high - low, 0.01)))
    ends = math.floor(low / step - 0.1), math.ceil(high / step + 0.1)
    return round(ends[0] * step, 6), round(ends[1] * step, 6)


def workload_dots(rows: Sequence[WorkloadRow]) -> Options:
    """Return the record's speedup over seed and reference by workload; the seed's with its intervals."""
    names = [axes_of(row) for row in rows]
    found = list(zip(names, rows, strict=True))
    gains = [(name, ratio) for name, row in found if (ratio := gain_over_seed(row)) is not None]
    whiskers = [
        [
            {"coord": [_shown(row.over_seed.lower), name]},
            {"coord": [_shown(row.over_seed.upper), name]},
        ]
        for name, row in found
        if row.over_seed is not None
    ]
    others = [
        (name, ratio)
        for name, row in found
        if (ratio := times_as_fast(row.reference_us, row.record_us)) is not None
    ]
    seed = _ratios("over the seed", "circle", PALETTE[0], gains) | {
        "markLine": {
            "silent": True,
            "symbol": "none",
            "label": {"show": False},
            "lineStyle": {"type": "solid", "width": 3, "color": PALETTE[0], "opacity": 0.6},
            "data": [*whiskers, {"xAxis": 1, "lineStyle": {"type": "dashed", "width": 1.5}}],
        }
    }
    reference = _ratios("over the reference", "diamond", PALETTE[1], others)
    return {
        "grid": {"left": 20, "right": 60, "top": 45, "bottom": 45, "containLabel": True},
        "xAxis": {
            "type": "log",
            "logBase": 2,
            "name": "times as fast (logarithmic); bars: 95 % intervals",
            "nameLocation": "middle",
            "nameGap": 28,
        },
        "yAxis": {"type": "category", "inverse": True, "data": names},
        "series": [seed, reference],
    }


def _ratios(name: str, symbol: str, colour: str, found: Sequence[tuple[str, float]]) -> Options:
    return {
        "name": name,
        "type": "scatter",
        "symbol": symbol,
        "symbolSize": 11,
        "itemStyle": {"color": colour, "opacity": 1},
        "label": {"show": True, "position": "top", "formatter": "{@[0]}x"},
        "data": [{"value": [_shown(ratio), workload]} for workload, ratio in found],
    }


def _shown(ratio: float) -> float:
    return float(f"{ratio:.3g}")


def hollow(point: Point) -> bool:
    """Return whether it came to a confirmation and is no record that stands."""
    return point.over_seed is not None and (point.verdict != "KEEP" or point.over_seed > point.best)


def _mark(point: Point, key: str) -> Options:
    mark: Options = {"value": [_place(point, key), point.over_seed], "name": _label(point)}
    return mark | {"symbol": "emptyCircle"} if hollow(point) else mark


def _place(point: Point, key: str) -> float:
    return round(float(getattr(point, key)), 3)


def _label(point: Point) -> str:
    return f"{point.submission} {point.verdict}"
