"""The roofline as a chart: roofs as lines, one dot for each record; pure."""

from typing import Final

from kernelarc_mcp.pages.writing import Options
from kernelarc_mcp.scores.dots import Dot, RooflineView

_GREY: Final = "#888888"
_DOTS: Final = "#0072b2"
_SEED: Final = "#d55e00"
_ROOM: Final = 10.0
"""How far the axes reach beyond what is drawn, as a factor."""


def roofline_chart(view: RooflineView) -> Options:
    """Return ECharts' options: operations over intensity, or bytes over attempts without operations."""
    if view.operations and view.memory:
        return _classic(view, view.operations / view.bytes, view.memory)
    roofs = [_level("memory's roof", view.memory)] if view.memory else []
    last = max([dot.at_attempt for dot in view.dots], default=1)
    points = [(dot, (float(dot.at_attempt), _giga(dot.bytes_per_second))) for dot in view.dots]
    # Room beyond the last record, so that no dot lies on the frame.
    end = max(1, last) + max(1, round(last / 20))
    lines = [_line(name, [(0, level), (end, level)]) for name, level in roofs]
    return {
        "xAxis": {
            "type": "value",
            "name": "attempt",
            "nameLocation": "middle",
            "nameGap": 26,
            "max": end,
        },
        "yAxis": {"type": "value", "name": "GB/s", "min": 0},
        "series": [*lines, *_scatter(points)],
    }


def _classic(view: RooflineView, intensity: float, memory: float) -> Options:
    low = intensity / _ROOM
    ridges = [rate / memory for rate in view.matrix.values()]
    high = max([intensity, *ridges]) * _ROOM
    top = max(view.matrix.values(), default=memory * high)
    slope = [(low, _giga(memory * low)), (top / memory, _giga(top))]
    lines = [_line("memory's roof", slope)]
    for dtype, rate in view.matrix.items():
        flat = [(rate / memory, _giga(rate)), (high, _giga(rate))]
        lines.append(_line(f"{dtype} products", flat))
    points = [
        (dot, (intensity, _giga(dot.operations_per_second)))
        for dot in view.dots
        if dot.operations_per_second
    ]
    axis = {"type": "log", "nameLocation": "middle", "nameGap": 26}
    return {
        "xAxis": axis | {"name": "operations per byte", "min": low, "max": high},
        "yAxis": {"type": "log", "name": "GFLOP/s"},
        "series": [*lines, *_scatter(points)],
    }


def _level(name: str, per_second: float) -> tuple[str, float]:
    return name, _giga(per_second)


def _giga(per_second: float) -> float:
    return float(f"{per_second / 1e9:.6g}")


def _line(name: str, points: list[tuple[float, float]]) -> Options:
    return {
        "name": name,
        "type": "line",
        "symbol": "none",
        "lineStyle": {"color": _GREY, "width": 2},
        "itemStyle": {"color": _GREY},
        "data": points,
    }


def _scatter(points: list[tuple[Dot, tuple[float, float]]]) -> list[Options]:
    """Return the seed's dot and the KEEPs', the withdrawn ones hollow."""
    kinds = {
        "seed": [one for one in points if not one[0].agent],
        "KEEP": [one for one in points if one[0].agent and not one[0].withdrawn],
        "withdrawn": [one for one in points if one[0].withdrawn],
    }
    return [
        {
            "name": name,
            "type": "scatter",
            "symbolSize": 10,
            "symbol": "emptyCircle" if name == "withdrawn" else "circle",
            "itemStyle": {"color": _SEED if name == "seed" else _DOTS},
            "labelLayout": {"hideOverlap": True},
            "data": [
                {
                    "value": place,
                    "name": _label(dot),
                    "label": {"show": True, "position": "right", "formatter": dot.submission},
                }
                for dot, place in found
            ],
        }
        for name, found in kinds.items()
        if found
    ]


def _label(dot: Dot) -> str:
    share = "" if dot.of_bound is None else f", {100 * dot.of_bound:.3g} % of its bound"
    return f"{dot.submission}{share}"
