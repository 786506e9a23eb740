"""The rules other tuners decide by, on the same noise: eight blocks of one process, or of one pair.

They have no lower bound on how often they keep luck, so a campaign of them is only counted.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.noise import Noise, Random
from kernelarc_guard.terms import Flags, Floats

BLOCKS = 8
SUBMISSIONS = 100
CHUNK = 500

Rule = Callable[[Noise, Random, int, float], Flags]
"""Which of the 100 submissions of so many campaigns, all with one true gain, are kept."""


def _stored(stored: Floats, measured: Floats, needed: float) -> Flags:
    """Keep what beats a stored number, which each KEEP replaces."""
    kept = np.zeros(measured.shape, bool)
    for number in range(measured.shape[1]):
        kept[:, number] = measured[:, number] > stored + needed
        stored = np.where(kept[:, number], measured[:, number], stored)
    return kept


def _alone(noise: Noise, rng: Random, campaigns: int, processes: int) -> Floats:
    """Draw the blocks of processes measured alone: half the variance of a pair of them."""
    # Generous: whatever drifts cancels in a pair and would not for a process alone.
    blocks: Floats = noise.blocks(rng, (campaigns, processes, BLOCKS)) / np.sqrt(2)
    return blocks


def best_of_n(noise: Noise, rng: Random, campaigns: int, gain: float) -> Flags:
    """Keep what has a fastest block faster than the record's stored fastest."""
    best = _alone(noise, rng, campaigns, SUBMISSIONS + 1).max(axis=2)
    return _stored(best[:, 0], gain + best[:, 1:], 0.0)


def one_percent_over_stored(noise: Noise, rng: Random, campaigns: int, gain: float) -> Flags:
    """Keep what has a mean 1 % better than the record's stored mean."""
    mean = _alone(noise, rng, campaigns, SUBMISSIONS + 1).mean(axis=2)
    return _stored(mean[:, 0], gain + mean[:, 1:], 1.0)


def two_standard_errors(noise: Noise, rng: Random, campaigns: int, gain: float) -> Flags:
    """Keep what is faster by two standard errors over the blocks of one pair of processes."""
    return _paired(noise, rng, campaigns, gain, 2.0)


def paired_t(noise: Noise, rng: Random, campaigns: int, gain: float) -> Flags:
    """Keep by a paired t-test at 1 % (one-sided) over the blocks of one pair of processes."""
    from scipy.special import stdtrit

    return _paired(noise, rng, campaigns, gain, -float(stdtrit(BLOCKS - 1, 0.01)))


def _paired(noise: Noise, rng: Random, campaigns: int, gain: float, errors: float) -> Flags:
    blocks = gain + noise.blocks(rng, (campaigns, SUBMISSIONS, BLOCKS))
    error = blocks.std(axis=2, ddof=1) / np.sqrt(BLOCKS)
    kept: Flags = blocks.mean(axis=2) > errors * error
    return kept


RULES: dict[str, Rule] = {
    "best of 8": best_of_n,
    "1 % over stored": one_percent_over_stored,
    "two standard errors": two_standard_errors,
    "one-process paired t": paired_t,
}


def kept(rule: Rule, noise: Noise, rng: Random, campaigns: int, gain: float) -> tuple[int, int]:
    """Return in how many campaigns anything was kept, and how many submissions were in all."""
    any_kept, all_kept = 0, 0
    for start in range(0, campaigns, CHUNK):
        flags = rule(noise, rng, min(CHUNK, campaigns - start), gain)
        any_kept += int(flags.any(axis=1).sum())
        all_kept += int(flags.sum())
    return any_kept, all_kept


def first_kept(rule: Rule, noise: Noise, rng: Random, campaigns: int, gain: float) -> int:
    """Return how often a campaign's first submission is kept."""
    total = 0
    for start in range(0, campaigns, CHUNK):
        total += int(rule(noise, rng, min(CHUNK, campaigns - start), gain)[:, 0].sum())
    return total
