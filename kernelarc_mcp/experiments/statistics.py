"""What a few runs say: geometric means with bootstrapped intervals, and exact paired tests."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy import stats

from kernelarc_guard.model import Model
from kernelarc_guard.rule import Number

LEVEL: Final = 0.95
RESAMPLES: Final = 9_999
MOST_EXACT: Final = 16
"""Pairs up to which every one of the 2^n sign changes is counted; beyond, as many are drawn."""


class Mean(Model):
    """A geometric mean over runs."""

    value: Number
    lower: Number | None
    upper: Number | None
    """The 95 % interval by bootstrap over runs; None for fewer than two."""
    runs: int


class Paired(Model):
    """Two arms compared seed by seed."""

    arm: str
    over: str
    pairs: int
    ratio: Number
    """Geometric mean of this arm's speedup over the other's, same seed."""
    lower: Number | None
    upper: Number | None
    wins: int
    """Seeds with which this arm ended faster."""
    losses: int
    permutation: Number | None
    """Two-sided p of the sign-flip test on the logarithms."""
    wilcoxon: Number | None
    """Two-sided p of the exact signed-rank test; None where ties or zeros leave it undefined."""
    least: Number
    """The smallest p that so many pairs can give."""


def geometric_mean(values: Sequence[float], seed: int = 1) -> Mean:
    """Return the geometric mean of positive values, with the interval of a bootstrap over them."""
    lower, upper = interval(np.log(np.asarray(values, dtype=float))[:, None], seed)
    return Mean(
        value=math.exp(math.fsum(map(math.log, values)) / len(values)),
        lower=_exp(lower[0]),
        upper=_exp(upper[0]),
        runs=len(values),
    )


def interval(logs: "np.ndarray", seed: int = 1) -> tuple["np.ndarray", "np.ndarray"]:
    """Return the bias-corrected bootstrap interval of each column's mean; rows are runs.

    NaN where one run is all there is; where all runs agree the interval is that value.
    """
    rows, columns = logs.shape
    if rows < 2:
        return np.full(columns, math.nan), np.full(columns, math.nan)
    means = logs.mean(axis=0)
    lower, upper = means.copy(), means.copy()
    varied = np.ptp(logs, axis=0) > 0
    if varied.any():
        found = stats.bootstrap(
            (logs[:, varied],),
            np.mean,
            axis=0,
            confidence_level=LEVEL,
            n_resamples=RESAMPLES,
            method="BCa",
            batch=500,
            rng=np.random.default_rng(seed),
        ).confidence_interval
        lower[varied], upper[varied] = found.low, found.high
    return lower, upper


def paired(
    arm: str, values: dict[int, float], over: str, others: dict[int, float]
) -> Paired | None:
    """Compare two arms' speedups by seed; None where they share none."""
    seeds = sorted(values.keys() & others.keys())
    if not seeds:
        return None
    logs = np.array([math.log(values[seed] / others[seed]) for seed in seeds])
    mean = geometric_mean([values[seed] / others[seed] for seed in seeds])
    return Paired(
        arm=arm,
        over=over,
        pairs=len(seeds),
        ratio=mean.value,
        lower=mean.lower,
        upper=mean.upper,
        wins=int((logs > 0).sum()),
        losses=int((logs < 0).sum()),
        permutation=sign_flip(logs),
        wilcoxon=signed_rank(logs),
        least=min(1.0, 2.0 ** (1 - len(seeds))),
    )


def sign_flip(logs: "np.ndarray") -> float | None:
    """Return the two-sided p of the paired permutation test of the mean; None for fewer than two.

    Exact up to MOST_EXACT pairs.
    """
    if len(logs) < 2:
        return None
    if not logs.any():
        return 1.0
    exact = len(logs) <= MOST_EXACT
    found = stats.permutation_test(
        (logs,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=math.inf if exact else 2**MOST_EXACT,
        rng=np.random.default_rng(1),
    )
    return float(found.pvalue)


def signed_rank(logs: "np.ndarray") -> float | None:
    """Return the two-sided p of Wilcoxon's exact test; None where zeros or ties leave it undefined."""
    sizes = np.abs(logs)
    if len(logs) < 2 or (sizes == 0).any() or len(np.unique(sizes)) < len(sizes):
        return None
    return float(stats.wilcoxon(logs, method="exact").pvalue)


def _exp(value: float) -> float | None:
    return None if math.isnan(value) else math.exp(value)
