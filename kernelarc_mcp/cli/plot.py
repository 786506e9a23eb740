"""A calibration's pair values as text: one row per nursery, one mark per pair."""

from collections.abc import Sequence
from statistics import fmean

WIDTH = 61
"""Columns of the axis; odd, so that zero has one of its own."""


def strip_plot(values: Sequence[float], nurseries: Sequence[int]) -> list[str]:
    """Return the lines of a plot: `.` one pair, `o` more in one column, `M` the nursery's mean.

    `nurseries` says how many of the values each gave, in their order; empty: all are one's.
    """
    sizes = list(nurseries) or [len(values)]
    span = max((abs(value) for value in values), default=0.0) or 1.0
    half = WIDTH // 2

    def column(value: float) -> int:
        return half + round(value / span * half)

    lines, start = [], 0
    for number, size in enumerate(sizes, start=1):
        own = values[start : start + size]
        start += size
        marks = [" "] * WIDTH
        marks[half] = "|"
        for value in own:
            at = column(value)
            marks[at] = "o" if marks[at] in ".o" else "."
        mean = fmean(own)
        marks[column(mean)] = "M"
        lines.append(f"{number:>9} {''.join(marks)} {mean:+7.3f} %".rstrip())
    axis = f"{-span:+.2f} %".ljust(half) + "0" + f"{span:+.2f} %".rjust(half)
    return [f"{'nursery':>9} {axis}    mean", *lines]
