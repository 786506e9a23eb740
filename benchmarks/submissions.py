"""Simulated submissions and campaigns, decided by the shipped core from simulated pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.noise import Noise, Random
from kernelarc_guard import core
from kernelarc_guard.calibration import calibrate_from
from kernelarc_guard.core import Source, Verdict
from kernelarc_guard.decide import Calibration, Parameters
from kernelarc_guard.terms import Flags, Floats, Ints, terms

PARAMETERS = Parameters()
STAKE = PARAMETERS.wealth * PARAMETERS.fraction
SUBMISSIONS = 100


class Pairs(Protocol):
    """Where pairs come from: simulated noise, or a bank of measured ones."""

    def pairs(self, rng: Random, rows: int, count: int, blocks: int) -> Floats:
        """Draw `count` pair values (percent) of each of the rows."""

    def seconds(self, pairs: Ints, blocks: Ints) -> Floats:
        """Return what so many pairs of so many blocks each cost."""


@dataclass(frozen=True)
class Calibrations:
    """Calibrations of one noise; one entry each."""

    sd_screen: Floats
    sd_confirm: Floats
    delta: Floats
    blocks_screen: Ints
    blocks_confirm: Ints

    @classmethod
    def of(cls, found: Sequence[Calibration]) -> "Calibrations":
        """Gather what the rule needs of them."""
        return cls(
            np.array([one.sd_screen for one in found]),
            np.array([one.sd_confirm for one in found]),
            np.array([one.delta for one in found]),
            np.array([one.blocks_screen for one in found]),
            np.array([one.blocks_confirm for one in found]),
        )

    def pick(self, rows: Ints) -> "Calibrations":
        """Return some of them."""
        return Calibrations(
            self.sd_screen[rows],
            self.sd_confirm[rows],
            self.delta[rows],
            self.blocks_screen[rows],
            self.blocks_confirm[rows],
        )


def calibrate(
    noise: Noise, rng: Random, nurseries: int, pairs: int, bias: float = 0.0
) -> Calibration:
    """Calibrate as the guard does; each nursery shares a bias of standard deviation `bias`."""
    seen = noise.calibrated
    blocks = seen.blocks(rng, (nurseries, pairs, PARAMETERS.blocks_confirm))
    blocks = blocks + bias * rng.standard_normal((nurseries, 1, 1))
    block_seconds = noise.kernel.block_seconds * noise.workloads
    return calibrate_from(
        "simulated",
        noise.kernel.name,
        "",
        blocks.tolist(),
        noise.kernel.pair_seconds,
        block_seconds,
        PARAMETERS,
    )


def pool(noise: Noise, rng: Random, size: int) -> Calibrations:
    """Draw calibrations of 48 pairs of one nursery, delta 0.3."""
    return Calibrations.of([calibrate(noise, rng, 1, 48) for _ in range(size)])


def source(noise: Pairs, rng: Random, gain: Floats, blocks: Ints) -> Source:
    """Return fresh pairs of candidates with these true gains (percent)."""

    def draw(rows: Ints, count: int) -> Floats:
        values = np.empty((len(rows), count))
        for b in np.unique(blocks[rows]).tolist():
            some = np.flatnonzero(blocks[rows] == b)
            values[some] = noise.pairs(rng, len(some), count, b)
        return values + gain[rows, None]

    return draw


def _no_workload(rows: Ints, n: int) -> Ints:
    """Deny no KEEP: with one workload a bound above delta rules out one below the band."""
    return np.full(len(rows), -1)


@dataclass(frozen=True)
class Submitted:
    """How submissions ended: one row each."""

    screened: Ints
    """Verdict of the screen."""
    screen_pairs: Ints
    screen_blocks: Ints
    confirm_pairs: Ints
    """0 without a confirmation."""
    keep: Flags
    accept: Flags
    estimate: Floats
    """The mean a KEEP publishes; nan for the others."""
    goal: Floats
    seconds: Floats


def submit(
    noise: Pairs,
    rng: Random,
    gain: Floats,
    held: Calibrations,
    stake: Floats | float = STAKE,
    confirm_gain: Floats | None = None,
    parameters: Parameters = PARAMETERS,
) -> Submitted:
    """Screen every submission and confirm the promising ones.

    `gain` has what a candidate's pairs are centred on; a confirmation may be off by another bias.
    """
    t = terms(
        parameters,
        sd_screen=held.sd_screen,
        sd_confirm=held.sd_confirm,
        delta=held.delta,
        stake=stake,
    )
    screens = core.screen(
        source(noise, rng, gain, held.blocks_screen), t, parameters, parameters.screen_pairs
    )
    rows = np.flatnonzero(screens.verdict == Verdict.PROMISING)
    later = (gain if confirm_gain is None else confirm_gain)[rows]
    judged = core.confirm(
        source(noise, rng, later, held.blocks_confirm[rows]),
        _no_workload,
        t.take(rows),
        parameters,
        parameters.n_max,
    )
    keep, accept = np.zeros(len(gain), bool), screens.verdict == Verdict.CLOSE
    confirm_pairs, estimate = np.zeros(len(gain), np.int64), np.full(len(gain), np.nan)
    keep[rows] = judged.verdict == Verdict.CONFIRMED
    accept[rows] = judged.verdict == Verdict.NOT_CONFIRMED
    confirm_pairs[rows] = judged.pairs
    estimate[rows] = np.where(keep[rows], judged.mean, np.nan)
    seconds = noise.seconds(screens.pairs, held.blocks_screen)
    seconds += noise.seconds(confirm_pairs, held.blocks_confirm)
    return Submitted(
        screens.verdict,
        screens.pairs,
        screens.pairs * held.blocks_screen,
        confirm_pairs,
        keep,
        accept,
        estimate,
        t.goal,
        seconds,
    )


@dataclass(frozen=True)
class Campaigns:
    """What campaigns without any better candidate came to."""

    count: int
    false: int
    """Campaigns with a false KEEP."""
    confirmations: float
    """Per campaign, on average."""
    keeps: int
    confirmed: int
    """False KEEPs and confirmations of all campaigns together."""
    wealth: float
    """Part of the error budget that is left, on average."""


def campaigns(
    noise: Pairs,
    rng: Random,
    count: int,
    held: Calibrations,
    *,
    gain: float = 0.0,
    bypass: bool = False,
    bias: float = 0.0,
) -> Campaigns:
    """Run campaigns of 100 submissions side by side, with the ledger of stakes.

    With `bypass` every submission is confirmed, whatever a screen would say. With `bias` each
    screen and each confirmation shares one of this standard deviation.
    """
    wealth, false, asked = np.full(count, PARAMETERS.wealth), np.zeros(count, int), 0
    keeps = 0
    for _ in range(SUBMISSIONS):
        stake = PARAMETERS.fraction * wealth
        t = terms(
            PARAMETERS,
            sd_screen=held.sd_screen,
            sd_confirm=held.sd_confirm,
            delta=held.delta,
            stake=stake,
        )
        rows = np.arange(count)
        if not bypass:
            truth = gain + bias * rng.standard_normal(count)
            fresh = source(noise, rng, truth, held.blocks_screen)
            screens = core.screen(fresh, t, PARAMETERS, PARAMETERS.screen_pairs)
            rows = np.flatnonzero(screens.verdict == Verdict.PROMISING)
        truth = gain + bias * rng.standard_normal(len(rows))
        fresh = source(noise, rng, truth, held.blocks_confirm[rows])
        judged = core.confirm(fresh, _no_workload, t.take(rows), PARAMETERS, PARAMETERS.n_max)
        keep = judged.verdict == Verdict.CONFIRMED
        false[rows] += keep
        # A stake is lost unless its confirmation ends in a KEEP.
        wealth[rows] -= np.where(keep, 0.0, stake[rows])
        asked += len(rows)
        keeps += int(keep.sum())
    return Campaigns(
        count,
        int((false > 0).sum()),
        asked / count,
        keeps,
        asked,
        float(wealth.mean()) / PARAMETERS.wealth,
    )
