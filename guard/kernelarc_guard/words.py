"""Numbers in sentences that people read; light."""

import math
from collections.abc import Mapping


def times(percent: float) -> str:
    """Return a gain, 100 * ln(record / candidate), as record time over candidate time: `1.0202x`.

    A percentage on the logarithmic scale cannot be read once it is large: -519 % is 0.00557x.
    """
    ratio = math.exp(percent / 100)
    return f"{ratio:.4f}x" if 0.1 <= ratio < 10 else f"{ratio:.3g}x"


def axes_in_words(axes: Mapping[str, int], uuid: str) -> str:
    """Return a workload's axes, which say more than its uuid; that where it has none."""
    return " ".join(f"{name}={size}" for name, size in axes.items()) or uuid
