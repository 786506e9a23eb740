"""Options of an experiment's charts, for ECharts: plain data, drawn where the page is opened."""

from typing import Any, Final

from kernelarc_mcp.experiments.outcome import Outcome
from kernelarc_mcp.experiments.summary import ArmSummary, Curve, Summary
from kernelarc_mcp.pages.writing import Options
from kernelarc_mcp.reporting.charts import PALETTE

_SPEED: Final[Options] = {"type": "value", "name": "times the seed's speed", "scale": True}


def charts(summary: Summary) -> dict[str, Options]:
    """Return each chart's options by the id of its place in the page; none where nothing is known."""
    if not any(one.judged for one in summary.outcomes):
        return {}
    return {"curves": curves(summary), "runs": ends(summary)}


def curves(summary: Summary) -> Options:
    """Return best-so-far over verdicts: arms as lines with bands, unfinished runs dashed."""
    series: list[Options] = []
    for number, arm in enumerate(summary.arms):
        colour = PALETTE[number % len(PALETTE)]
        if arm.curve is not None:
            series += [*_band(arm.curve, arm.arm.name, colour), _mean(arm, arm.curve, colour)]
        series += [_partial(one, colour) for one in _runs(summary, arm) if one.state == "partial"]
    return {
        "legend": {"type": "scroll", "top": 0, "data": [arm.arm.name for arm in summary.arms]},
        "xAxis": {
            # By categories, since ECharts stacks a band only over these.
            "type": "category",
            "boundaryGap": False,
            "data": [str(number) for number in range(summary.experiment.attempts + 1)],
            "name": "verdicts",
            "nameLocation": "middle",
            "nameGap": 28,
        },
        "yAxis": _SPEED,
        "series": series,
    }


def ends(summary: Summary) -> Options:
    """Return where each run ended, by seed; those of unfinished runs hollow."""
    series: list[Options] = []
    for number, arm in enumerate(summary.arms):
        marks = [
            {
                "value": [str(one.seed), round(one.speedup, 4)],
                "name": f"{one.arm} {one.run}, {one.state}",
                "symbol": "circle" if one.state == "finished" else "emptyCircle",
            }
            for one in _runs(summary, arm)
            if one.judged
        ]
        style = {"color": PALETTE[number % len(PALETTE)]}
        shared = {"type": "scatter", "symbolSize": 11, "itemStyle": style}
        series.append({"name": arm.arm.name, "data": marks, **shared})
    seeds = sorted({one.seed for one in summary.outcomes})
    return {
        "xAxis": {
            "type": "category",
            "name": "seed",
            "nameLocation": "middle",
            "nameGap": 28,
            "data": [str(seed) for seed in seeds],
        },
        "yAxis": _SPEED,
        "series": series,
    }


def _runs(summary: Summary, arm: ArmSummary) -> list[Outcome]:
    return [one for one in summary.outcomes if one.arm == arm.arm.name]


def _band(curve: Curve, name: str, colour: str) -> list[Options]:
    """Return an interval as two stacked lines: the lower one unseen, and what is above it filled."""
    if not curve.lower:
        return []
    width = [high - low for low, high in zip(curve.lower, curve.upper, strict=True)]
    unseen: dict[str, Any] = {"stack": name, "silent": True, "lineStyle": {"opacity": 0}}
    lower, upper = _steps(f"{name}, lower", curve.lower), _steps(f"{name}, upper", width)
    return [lower | unseen, upper | unseen | {"areaStyle": {"color": colour, "opacity": 0.15}}]


def _mean(arm: ArmSummary, curve: Curve, colour: str) -> Options:
    style = {"lineStyle": {"width": 2, "color": colour}, "itemStyle": {"color": colour}}
    return _steps(arm.arm.name, curve.mean) | style


def _partial(one: Outcome, colour: str) -> Options:
    style = {
        "lineStyle": {"width": 1, "type": "dashed", "color": colour},
        "itemStyle": {"color": colour},
    }
    return _steps(f"{one.arm} {one.run}, unfinished", one.best()) | style


def _steps(name: str, values: list[float]) -> Options:
    data = [round(value, 4) for value in values]
    return {"name": name, "type": "line", "step": "end", "symbol": "none", "data": data}
