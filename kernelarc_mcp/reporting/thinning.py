"""Fewer points of a long series, so that a chart of any search has a bounded size; pure."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def thinned(points: Sequence[Item], most: int, height: Callable[[Item], float]) -> list[Item]:
    """Return at most `most` of the points, in their order, the extremes among them.

    The first and the last stay, and of each of many equal stretches between them the lowest and the
    highest. ValueError below 4.
    """
    if most < 4:
        raise ValueError(f"{most}: expected at least 4 points")
    if len(points) <= most:
        return list(points)
    stretches = (most - 2) // 2
    inner = len(points) - 2
    kept = {0, len(points) - 1}
    for number in range(stretches):
        begin, end = 1 + number * inner // stretches, 1 + (number + 1) * inner // stretches
        stretch = range(begin, end)
        kept.add(min(stretch, key=lambda place: height(points[place])))
        kept.add(max(stretch, key=lambda place: height(points[place])))
    return [points[place] for place in sorted(kept)]
