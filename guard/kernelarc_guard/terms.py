"""What the rule holds many submissions to: their noise, stakes, goals and planned looks, as arrays.

Imports numpy: light modules import this one inside their functions.
"""

from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelarc_guard.rule import Parameters

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

LOOKS = 3
"""Most looks of a confirmation: fast (t), middle and last (signed rank)."""


@dataclass(frozen=True)
class Terms:
    """One row per submission; effects in percent."""

    sd_screen: Floats
    sd_confirm: Floats
    delta: Floats
    stake: Floats
    resolution: Floats
    goal: Floats
    pairs: Ints
    """Rows x LOOKS: after how many pairs each look comes, 0 where there is no such look."""
    levels: Floats
    """Rows x LOOKS: the part of the stake each look may spend."""

    def take(self, rows: Ints) -> Self:
        """Return the terms of some of the submissions."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    def __len__(self) -> int:
        """Return the number of submissions."""
        return len(self.stake)


def terms(
    parameters: Parameters,
    *,
    sd_screen: ArrayLike,
    sd_confirm: ArrayLike,
    delta: ArrayLike,
    stake: ArrayLike,
) -> Terms:
    """Fix what is looked for and when, before the first pair; scalars hold for every submission.

    `delta` is the calibrated one. ValueError where a stake is not between 0 and 1.
    """
    screen, confirm, calibrated, stakes = (
        np.ascontiguousarray(one)
        for one in np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(v, float)) for v in (sd_screen, sd_confirm, delta, stake))
        )
    )
    outside = stakes[~((stakes > 0) & (stakes < 1))]
    if len(outside):
        raise ValueError(f"a stake lies between 0 and 1, not {outside[0]}")
    needed = np.maximum(calibrated, parameters.delta)
    za = _upper_normal(parameters.shares[2] * stakes)
    zb = -NormalDist().inv_cdf(parameters.miss)
    # A vanishing stake needs more signs than n_max has. One pair left keeps this finite; such a
    # confirmation then has no critical value and cannot KEEP.
    effective = np.maximum(parameters.n_max - za * za / 2, 1.0)
    signal = (za + zb) ** 2 / parameters.efficiency
    resolution = needed + confirm * np.sqrt(signal / effective)
    goal = np.maximum(resolution, parameters.target)
    pairs, levels = _looks(parameters, stakes, signal, za, (goal - needed) / confirm)
    return Terms(screen, confirm, needed, stakes, resolution, goal, pairs, levels)


def _looks(
    parameters: Parameters, stakes: Floats, signal: Floats, za: Floats, gain: Floats
) -> tuple[Ints, Floats]:
    """Plan the looks for gains given in standard deviations of a pair."""
    fast, middle, last = (share * stakes for share in parameters.shares)
    n1 = np.full(len(stakes), parameters.fast_pairs)
    n2 = _signs_for(middle)
    # No plan has more than n_max pairs, so a count beyond it may as well be cut before it overflows.
    wanted = np.ceil(np.minimum(signal / (gain * gain) + za * za / 2, parameters.n_max))
    least = np.maximum(_signs_for(middle + last), n1 + 1)
    n3 = np.minimum(np.maximum(wanted.astype(np.int64), least), parameters.n_max)
    three = (n1 < n2) & (n2 <= n3 - parameters.look_gap)
    pairs = np.stack([n1, np.where(three, n2, 0), n3], axis=1)
    levels = np.stack(
        [fast, np.where(three, middle, 0.0), np.where(three, last, middle + last)], axis=1
    )
    return pairs, levels


def _upper_normal(levels: Floats) -> Floats:
    """Return upper normal quantiles: of the standard library, the same bytes on every machine."""
    distinct, places = np.unique(levels, return_inverse=True)
    normal = NormalDist()
    return np.array([-normal.inv_cdf(level) for level in distinct.tolist()])[places]


def _signs_for(levels: Floats) -> Ints:
    """Return how many pairs reach the levels with one to spare when all of them agree."""
    # ceil(-log2(level)) from the exponent alone: no logarithm whose last bit could matter.
    return np.asarray(2 - np.frexp(levels)[1], np.int64)
