"""What a confirmation can resolve, and the looks it takes: fixed before its first pair is measured."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from kernelarc_guard.rule import Calibration, Parameters


@dataclass(frozen=True)
class Look:
    """One planned test: after how many pairs, which test, and at which level."""

    pairs: int
    test: Literal["T", "W"]
    level: float


def delta_of(parameters: Parameters, calibration: Calibration) -> float:
    """Return the gain (percent) that a KEEP must exceed."""
    return max(parameters.delta, calibration.delta)


def resolution(parameters: Parameters, calibration: Calibration, stake: float) -> float:
    """Return the smallest true gain (percent) that n_max pairs prove with probability 1 - miss."""
    za, zb = _quantiles(parameters, stake)
    # A vanishing stake needs more signs than n_max has. One pair left keeps this finite; such a
    # confirmation then has no critical value and cannot KEEP.
    effective = max(parameters.n_max - za**2 / 2, 1.0)
    spread = math.sqrt((za + zb) ** 2 / (parameters.efficiency * effective))
    return delta_of(parameters, calibration) + calibration.sd_confirm * spread


def goal(parameters: Parameters, calibration: Calibration, stake: float) -> float:
    """Return the gain (percent) to look for: the target, or the resolution where that is larger."""
    return max(parameters.target, resolution(parameters, calibration, stake))


def confirmation_plan(
    parameters: Parameters, calibration: Calibration, stake: float
) -> tuple[Look, ...]:
    """Return the looks of a confirmation, in order; their levels add up to the stake."""
    fast, middle, last = (share * stake for share in parameters.shares)
    looked_for = goal(parameters, calibration, stake)
    za, zb = _quantiles(parameters, stake)
    gain = (looked_for - delta_of(parameters, calibration)) / calibration.sd_confirm
    wanted = math.ceil((za + zb) ** 2 / (parameters.efficiency * gain**2) + za**2 / 2)
    n1 = parameters.fast_pairs
    n2 = _signs_for(middle)
    n3 = min(max(wanted, _signs_for(middle + last), n1 + 1), parameters.n_max)
    first = Look(n1, "T", fast)
    if not n1 < n2 <= n3 - parameters.look_gap:
        return first, Look(n3, "W", middle + last)
    return first, Look(n2, "W", middle), Look(n3, "W", last)


def _quantiles(parameters: Parameters, stake: float) -> tuple[float, float]:
    if not 0 < stake < 1:
        raise ValueError(f"a stake lies between 0 and 1, not {stake}")
    normal = NormalDist()
    return -normal.inv_cdf(parameters.shares[2] * stake), -normal.inv_cdf(parameters.miss)


def _signs_for(level: float) -> int:
    """Return how many pairs reach the level with one to spare when all of them agree."""
    return math.ceil(-math.log2(level)) + 1
