"""The deciding core: the KEEP rule over many submissions at once; `decide` calls it with one.

Pairs come from a source, asked for as they are needed, so that a simulation draws no pair that the
rule would not measure. Imports numpy and scipy: light modules import this one inside functions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np

from kernelarc_guard.rule import Parameters
from kernelarc_guard.signed_rank import lower_bounds
from kernelarc_guard.terms import LOOKS, Flags, Floats, Ints, Terms

Source = Callable[[Ints, int], Floats]
"""Give the next `count` pair values (percent) of these submissions: rows x count."""
Regressed = Callable[[Ints, int], Ints]
"""Give each of these submissions' first regressed workload over its first `n` pairs, or -1."""


class Verdict(IntEnum):
    """Where a screen or a confirmation stands."""

    OPEN = 0
    PROMISING = 1
    CLOSE = 2
    SLOWER = 3
    NOT_CLOSE = 4
    CONFIRMED = 5
    NOT_CONFIRMED = 6
    REGRESSED = 7


@dataclass(frozen=True)
class Judged:
    """How screens or confirmations ended: one row per submission."""

    verdict: Ints
    pairs: Ints
    """Pairs used."""
    mean: Floats
    """Mean (percent) of those pairs."""
    lower: Floats
    """Lower bound (percent) at the deciding look; -inf in a screen or where there is none."""
    look: Ints
    """Which look (1, 2, ...) decided; 0 in a screen."""
    workload: Ints
    """The workload (from 0) that denied a KEEP, or -1."""

    @classmethod
    def start(cls, rows: int) -> "Judged":
        """Return the state before the first pair."""
        whole = [np.zeros(rows, np.int64) for _ in range(3)]
        bound = np.full(rows, -np.inf)
        return cls(whole[0], whole[1], np.zeros(rows), bound, whole[2], np.full(rows, -1))


def screen(source: Source, terms: Terms, parameters: Parameters, most: int) -> Judged:
    """Screen submissions pair by pair; those that `most` pairs leave undecided stay OPEN."""
    judged, dropped = Judged.start(len(terms)), np.zeros(len(terms), bool)
    cap = min(most, parameters.screen_pairs)
    values = np.empty((len(terms), cap))
    for k in range(1, cap + 1):
        rows = np.flatnonzero(judged.verdict == Verdict.OPEN)
        if not len(rows):
            break
        values[rows, k - 1] = source(rows, 1)[:, 0]
        mean = row_sums(values[rows, :k]) / k
        judged.verdict[rows], dropped[rows] = _screened(
            mean, k, dropped[rows], terms.take(rows), parameters
        )
        judged.pairs[rows], judged.mean[rows] = k, mean
    return judged


def _screened(
    mean: Floats, k: int, dropped: Flags, terms: Terms, parameters: Parameters
) -> tuple[Ints, Flags]:
    """Return where screens with these means over k pairs stand, and which can promote no more."""
    band, error = parameters.band, terms.sd_screen / math.sqrt(k)
    unit = terms.sd_screen**2 / (terms.goal * k)
    last = k >= parameters.screen_pairs
    promoted = ~dropped & (
        mean >= terms.goal / 2 + (0.0 if last else parameters.promote_log_odds * unit)
    )
    dropped = dropped | (mean <= terms.goal / 2 - parameters.drop_log_odds * unit) | last
    close = parameters.close_z * error
    ending = dropped & (k >= 2)
    verdict = np.select(
        [
            mean + parameters.hopeless_z * error < -band,
            promoted,
            ending & (mean - close > -band),
            ending & (mean + close < -band),
            ending & ((mean < -band) | (k >= parameters.dropped_pairs)),
        ],
        [
            Verdict.SLOWER,
            Verdict.PROMISING,
            Verdict.CLOSE,
            Verdict.SLOWER,
            Verdict.NOT_CLOSE,
        ],
        Verdict.OPEN,
    )
    return verdict, dropped


def confirm(
    source: Source, regressed: Regressed, terms: Terms, parameters: Parameters, most: int
) -> Judged:
    """Confirm submissions look by look; those that `most` pairs leave undecided stay OPEN."""
    judged = Judged.start(len(terms))
    values = np.empty((len(terms), int(min(most, parameters.n_max))))
    for stage in range(LOOKS):
        planned = terms.pairs[:, stage]
        open_rows = (judged.verdict == Verdict.OPEN) & (planned > 0) & (planned <= most)
        for n in np.unique(planned[open_rows]).tolist():
            rows = np.flatnonzero(open_rows & (planned == n))
            for have in np.unique(judged.pairs[rows]).tolist():
                some = rows[judged.pairs[rows] == have]
                values[some, have:n] = source(some, n - have)
            _look(values[rows, :n], rows, stage, regressed, terms.take(rows), parameters, judged)
    return judged


def _look(
    values: Floats,
    rows: Ints,
    stage: int,
    regressed: Regressed,
    terms: Terms,
    parameters: Parameters,
    judged: Judged,
) -> None:
    """Decide some of the submissions at one look, where the next one is not worth its pairs."""
    n, levels = values.shape[1], terms.levels[:, stage]
    mean = row_sums(values) / n
    error = terms.sd_confirm / math.sqrt(n)
    lower = (
        _t_bounds(values, mean, levels, terms.sd_confirm)
        if stage == 0
        else lower_bounds(values, levels)
    )
    proven = lower > terms.delta
    hopeless = (mean < terms.delta) & (mean + parameters.stop_z * error < terms.goal)
    ends = hopeless | (stage == LOOKS - 1)
    close = mean - parameters.close_z * error > -parameters.band
    workload = np.full(len(rows), -1)
    kept = np.flatnonzero(proven)
    if len(kept):
        workload[kept] = regressed(rows[kept], n)
    judged.verdict[rows] = np.select(
        [proven & (workload < 0), proven, ends & close, ends],
        [Verdict.CONFIRMED, Verdict.REGRESSED, Verdict.NOT_CONFIRMED, Verdict.NOT_CLOSE],
        Verdict.OPEN,
    )
    judged.pairs[rows], judged.mean[rows], judged.lower[rows] = n, mean, lower
    judged.look[rows] += 1
    judged.workload[rows] = workload


def _t_bounds(values: Floats, mean: Floats, levels: Floats, floor: Floats) -> Floats:
    """Return lower bounds from Student's t, with a spread that is at least `floor`."""
    # The calibrated spread is a floor: seven pairs that agree by luck prove nothing more.
    n = values.shape[1]
    spread = np.maximum(sample_sd(values, mean), floor)
    bounds = mean - _t_quantiles(levels, n - 1) * spread / math.sqrt(n)
    return np.where(np.isfinite(bounds), bounds, -np.inf)


def regressed_workload(per_workload: Floats, parameters: Parameters) -> Ints:
    """Return each submission's first workload shown to be worse than the band, or -1.

    `per_workload` is submissions x pairs x workloads (percent).
    """
    count, n, workloads = per_workload.shape
    quantile = t_quantile(parameters.workload_level / workloads, n - 1)
    worse = np.zeros((count, workloads), bool)
    for w in range(workloads):
        column = np.ascontiguousarray(per_workload[:, :, w])
        mean = row_sums(column) / n
        upper = mean + quantile * sample_sd(column, mean) / math.sqrt(n)
        worse[:, w] = upper < -parameters.band
    return np.where(worse.any(axis=1), worse.argmax(axis=1), -1)


def row_sums(values: Floats) -> Floats:
    """Sum each row; a single row exactly, so that no order of additions shows in a verdict."""
    if len(values) == 1:
        return np.array([math.fsum(values[0].tolist())])
    sums: Floats = values.sum(axis=1)
    return sums


def sample_sd(values: Floats, mean: Floats) -> Floats:
    """Return each row's standard deviation, given the rows' means."""
    off = values - mean[:, None]
    sd: Floats = np.sqrt(row_sums(off * off) / (values.shape[1] - 1))
    return sd


def _t_quantiles(levels: Floats, freedom: int) -> Floats:
    distinct, places = np.unique(levels, return_inverse=True)
    return np.array([t_quantile(level, freedom) for level in distinct.tolist()])[places]


@lru_cache(maxsize=4096)
def t_quantile(level: float, freedom: int) -> float:
    """Return the upper quantile of Student's t."""
    # scipy.special, not scipy.stats: the same number, without a second of imports.
    from scipy.special import stdtrit

    return -float(stdtrit(freedom, level))
