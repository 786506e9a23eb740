"""Small statistics and tables of the experiments."""

import math
from collections.abc import Sequence
from statistics import median, quantiles, stdev


def quartiles(values: Sequence[float]) -> list[float]:
    """Return the quartiles, rounded."""
    return [round(one, 2) for one in quantiles(values, n=4)]


def log_ratio(first: Sequence[float], second: Sequence[float]) -> float:
    """Return 100 ln of the ratio of the medians."""
    return round(100 * math.log(median(first) / median(second)), 3)


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation."""
    return round(stdev(values), 3)


def blocks(values: Sequence[float], size: int) -> list[Sequence[float]]:
    """Cut a series into blocks."""
    return [values[i : i + size] for i in range(0, len(values) - size + 1, size)]


def show(title: str, rows: Sequence[dict[str, object]]) -> None:
    """Print a table."""
    print(f"\n{title}")
    names = list(rows[0])
    print(" | ".join(names))
    for row in rows:
        print(" | ".join(str(row.get(name, "")) for name in names))
