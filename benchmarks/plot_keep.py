"""Draw docs/keep.svg: how a submission is judged, and which gains the rule finds.

The flow has the numbers of the default parameters, the curves those of the study.

    python benchmarks/plot_keep.py docs/measurements/false_keep.json docs/keep.svg
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from kernelarc_guard.decide import Calibration, Parameters, confirmation_plan

WIDTH, HEIGHT = 880, 640
INK, SOFT, LINE = "#1f2933", "#5b6770", "#b8c0c8"
KEEP, ACCEPT, REVERT = "#1a7f4b", "#2f6fb0", "#b0413e"
CURVES = (
    ("gemm", "GEMM, 176 us", "#1a7f4b"),
    ("rmsnorm_26us", "RMSNorm, 26 us", "#2f6fb0"),
    ("rmsnorm_11us", "RMSNorm, 11 us", "#c77d12"),
)
LEFT, RIGHT, TOP, BOTTOM = 90, 840, 350, 580
"""Of the plot area."""
MOST = 3.0
"""Largest gain (percent) shown."""


def text(x: float, y: float, words: str, **style: object) -> str:
    """Write words at a place."""
    look = {"fill": INK, "font-size": 13, "text-anchor": "middle"} | {
        key.replace("_", "-"): value for key, value in style.items()
    }
    attributes = " ".join(f'{key}="{value}"' for key, value in look.items())
    return f'<text x="{x:g}" y="{y:g}" {attributes}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, lines: Sequence[str], ink: str) -> str:
    """Draw a box with a title and lines below it."""
    parts = [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
        f' fill="#ffffff" stroke="{ink}" stroke-width="1.6"/>'
    ]
    middle = x + width / 2
    parts.append(text(middle, y + 21, lines[0], fill=ink, font_size=14, font_weight="bold"))
    parts += [text(middle, y + 40 + 17 * i, line, font_size=12) for i, line in enumerate(lines[1:])]
    return "\n".join(parts)


def arrow(points: Sequence[tuple[float, float]], ink: str = SOFT) -> str:
    """Draw a line through points with a head at its end."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{ink}" stroke-width="1.6"'
        ' marker-end="url(#head)"/>'
    )


def flow(parameters: Parameters) -> list[str]:
    """Draw the way of a submission, with the parameters' numbers."""
    noisy = Calibration(
        device="",
        problem="",
        at="",
        pairs=2,
        blocks_screen=parameters.blocks_screen,
        blocks_confirm=parameters.blocks_confirm,
        sd_screen=1,
        sd_confirm=1,
        delta=parameters.delta,
        mean=0,
        values=[],
    )
    stake = parameters.wealth * parameters.fraction
    looks = [look.pairs for look in confirmation_plan(parameters, noisy, stake)]
    share = f"1/{round(1 / parameters.fraction)}"
    pair = ["Fresh pair", "two new processes", "roles by a coin", "one value, in %"]
    screen = [
        "Screen",
        f"1 to {parameters.screen_pairs} pairs",
        "risks nothing",
        "cannot KEEP",
    ]
    confirmation = [
        "Confirmation, once",
        "new nursery, new seeds, new pairs",
        f"looks at {looks[0]}, {looks[1]} and up to {looks[2]} pairs",
        f"lower bound above {parameters.delta:g} %?",
    ]
    budget = [
        "Error budget of the campaign",
        f"{100 * parameters.wealth:g} % in all; a stake is {share} of what is left",
        "returned on KEEP, lost otherwise",
    ]
    return [
        box(30, 40, 150, 100, pair, INK),
        arrow([(180, 90), (222, 90)]),
        box(225, 40, 150, 100, screen, INK),
        arrow([(375, 90), (457, 90)]),
        text(416, 82, "promising", fill=SOFT, font_size=12),
        box(460, 40, 230, 100, confirmation, INK),
        arrow([(690, 90), (747, 90)], KEEP),
        text(718, 82, "proven", fill=KEEP, font_size=12),
        box(750, 62, 115, 56, ["KEEP", "moves the record"], KEEP),
        arrow([(252, 140), (252, 187)], REVERT),
        box(150, 190, 150, 73, ["REVERT", "slower, not close,", "one workload slower"], REVERT),
        arrow([(345, 140), (345, 187)], ACCEPT),
        box(312, 190, 133, 56, ["ACCEPT", "close to the record"], ACCEPT),
        arrow([(490, 140), (490, 218), (448, 218)], ACCEPT),
        text(498, 238, "not proven", fill=ACCEPT, font_size=12),
        box(555, 176, 310, 76, budget, SOFT),
        arrow([(610, 176), (610, 143)]),
        text(600, 164, "stake", fill=SOFT, font_size=12, text_anchor="end"),
        arrow([(800, 118), (800, 173)], KEEP),
    ]


def curves(power: Sequence[dict[str, Any]], parameters: Parameters) -> list[str]:
    """Draw the probability of KEEP against the true gain."""

    def across(gain: float) -> float:
        return LEFT + (RIGHT - LEFT) * gain / MOST

    def up(probability: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * probability

    parts = [
        text(LEFT, TOP - 32, "Probability of KEEP", text_anchor="start", font_weight="bold"),
        text((LEFT + RIGHT) / 2, BOTTOM + 42, "true gain of the candidate, %"),
    ]
    for tenths in (0, 25, 50, 75, 100):
        y = up(tenths / 100)
        parts.append(f'<path d="M{LEFT} {y:g}H{RIGHT}" stroke="{LINE}" stroke-width="0.7"/>')
        parts.append(text(LEFT - 10, y + 4, f"{tenths} %", text_anchor="end", font_size=12))
    for half in range(7):
        parts.append(text(across(half / 2), BOTTOM + 20, f"{half / 2:g}", font_size=12))
    x = across(parameters.delta)
    parts.append(f'<path d="M{x:g} {TOP}V{BOTTOM}" stroke="{SOFT}" stroke-dasharray="4 4"/>')
    parts.append(text(x, TOP - 8, f"delta {parameters.delta:g} %", fill=SOFT, font_size=12))
    for number, (kernel, label, ink) in enumerate(CURVES):
        points = sorted(
            (row["gain %"], row["KEEP"])
            for row in power
            if row["kernel"] == kernel and row["noise"] == "normal" and 0 <= row["gain %"] <= MOST
        )
        places = [(across(gain), up(kept)) for gain, kept in points]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{ink}" stroke-width="2.2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.2" fill="{ink}"/>' for a, b in places]
        y = BOTTOM - 70 + 20 * number
        parts.append(f'<path d="M{RIGHT - 165} {y - 4}h24" stroke="{ink}" stroke-width="2.2"/>')
        parts.append(text(RIGHT - 133, y, label, text_anchor="start", font_size=12))
    return parts


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", type=Path, help="what false_keep.py --out wrote")
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    power = json.loads(options.study.read_text(encoding="utf-8"))["tables"]["power"]
    parameters = Parameters()
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        f' orient="auto"><path d="M0 0L8 4L0 8z" fill="{SOFT}"/></marker>'
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="Helvetica, Arial, sans-serif" role="img">',
        "<title>How a submission is judged, and which gains are found</title>",
        f"<defs>{head}</defs>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *flow(parameters),
        *curves(power, parameters),
        "</svg>",
    ]
    options.picture.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
