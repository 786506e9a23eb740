"""Simulated A/A noise of a pair of processes, by the variance components measured on an H200.

Effects are log ratios in percent. A block is one side-by-side measurement of two processes; which
of them runs the record, and which arm goes first, are fair coins, as they are in the guard.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelarc_guard.terms import Floats, Ints

CHUNK = 1 << 17
"""Blocks drawn at once: they stay in the cache."""


@dataclass(frozen=True)
class Kernel:
    """One measured kernel; standard deviations in percent."""

    name: str
    between: float
    """Of the offset between two processes, which no repetition within them removes."""
    within: float
    """Of a block within one pair of processes."""
    pair_seconds: float
    block_seconds: float

    @cached_property
    def measured(self) -> Floats:
        """The 26 measured pairs of 8 blocks (percent)."""
        text = Path(__file__).with_name("h200_pairs.json").read_text(encoding="utf-8")
        hundredths: Floats = np.array(json.loads(text)[self.name], np.float64)
        return hundredths / 100


GEMM = Kernel("gemm", 0.12, 0.16, 0.8, 0.019)
RMSNORM_26US = Kernel("rmsnorm_26us", 0.52, 0.74, 0.5, 0.011)
RMSNORM_11US = Kernel("rmsnorm_11us", 1.45, 1.26, 0.5, 0.010)
KERNELS = (GEMM, RMSNORM_26US, RMSNORM_11US)

Shape = tuple[int, int, int]
"""Submissions, pairs of each, blocks of each pair."""
Random = np.random.Generator
Draw = Callable[[Random, Shape, float, float], Floats]
"""Blocks from the two standard deviations, offset and block."""


def _coins(rng: Random, shape: tuple[int, ...]) -> Floats:
    return np.where(rng.integers(0, 2, shape, dtype=np.int8) > 0, 1.0, -1.0)


def _hits(rng: Random, shape: tuple[int, ...], probability: float) -> NDArray[np.bool_]:
    return rng.random(shape, dtype=np.float32) < probability


def _student3(rng: Random, shape: tuple[int, ...]) -> Floats:
    """Student's t with 3 degrees of freedom, scaled to variance 1."""
    # A chi-square of 3 is twice an exponential plus a squared normal: both are cheap to draw.
    chi_square = 2 * rng.standard_exponential(shape) + rng.standard_normal(shape) ** 2
    drawn: Floats = rng.standard_normal(shape) / np.sqrt(chi_square)
    return drawn


def normal(rng: Random, shape: Shape, between: float, within: float) -> Floats:
    """Normal offsets, normal blocks."""
    blocks: Floats = rng.standard_normal(shape)
    blocks *= within
    blocks += between * rng.standard_normal(shape[:2])[..., None]
    return blocks


def heavy_tails(rng: Random, shape: Shape, between: float, within: float) -> Floats:
    """Student's t with 3 degrees of freedom, for offsets and blocks."""
    return within * _student3(rng, shape) + between * _student3(rng, shape[:2])[..., None]


def drift(rng: Random, shape: Shape, between: float, within: float) -> Floats:
    """The level wanders (AR(1), sd 1.9 %, correlation 0.97) and a block compares two steps of it."""
    level = 1.9 * rng.standard_normal(shape[:2])
    blocks = normal(rng, shape, between, within)
    order, kick = _coins(rng, shape), 1.9 * np.sqrt(1 - 0.97**2)
    for block in range(shape[2]):
        second = 0.97 * level + kick * rng.standard_normal(shape[:2])
        blocks[..., block] += order[..., block] * (second - level)
        level = 0.97 * second + kick * rng.standard_normal(shape[:2])
    return blocks


def clock_steps(rng: Random, shape: Shape, between: float, within: float) -> Floats:
    """The clock steps by 5 % inside one block in twenty."""
    return normal(rng, shape, between, within) + 5 * _coins(rng, shape) * _hits(rng, shape, 0.05)


def warm_up(rng: Random, shape: Shape, between: float, within: float) -> Floats:
    """The arm that goes second in a block is 0.5 % slower."""
    return normal(rng, shape, between, within) + 0.5 * _coins(rng, shape)


def large_offset(rng: Random, shape: Shape, between: float, within: float) -> Floats:
    """Processes differ three times as much as measured."""
    return normal(rng, shape, 3 * between, within)


def two_modes(rng: Random, shape: Shape, between: float, within: float) -> Floats:
    """Each process lands in one of two modes."""
    modes = rng.integers(0, 2, (2, *shape[:2]), dtype=np.int8)
    offset = np.sqrt(2) * between * (modes[0] - modes[1])
    blocks: Floats = within * rng.standard_normal(shape) + offset[..., None]
    return blocks


def outliers(rng: Random, shape: Shape, between: float, within: float) -> Floats:
    """One pair in ten has five times the offset."""
    factor = np.where(_hits(rng, shape[:2], 0.1), 5.0, 1.0)
    offset = between * factor * rng.standard_normal(shape[:2])
    blocks: Floats = within * rng.standard_normal(shape) + offset[..., None]
    return blocks


def doubled(rng: Random, shape: Shape, between: float, within: float) -> Floats:
    """Twice the noise that was calibrated."""
    return normal(rng, shape, 2 * between, 2 * within)


FAMILIES: dict[str, Draw] = {
    "normal": normal,
    "AR(1) drift": drift,
    "heavy tails": heavy_tails,
    "step change": clock_steps,
    "process offset x3": large_offset,
    "two modes": two_modes,
    "outlier pairs": outliers,
    "warm-up ramp": warm_up,
    "doubled noise": doubled,
}
BOOTSTRAP = "bootstrap"
"""A measured pair, its blocks drawn with replacement, its roles by a coin."""
EVERY_FAMILY = (*FAMILIES, BOOTSTRAP)


@dataclass(frozen=True)
class Noise:
    """A kernel's noise of one family, as a weighted mean over workloads of equal noise."""

    kernel: Kernel
    family: str = "normal"
    workloads: int = 1
    rho: float = 0.0
    """Correlation of the offsets of two workloads of one pair; their blocks are independent."""

    def blocks(self, rng: Random, shape: Shape) -> Floats:
        """Draw block values (percent) of identical arms."""
        kernel = self.kernel
        if self.family == BOOTSTRAP:
            if self.workloads != 1:
                raise ValueError("the measured pairs have one workload")
            row = rng.integers(0, len(kernel.measured), shape[:2])[..., None]
            column = rng.integers(0, kernel.measured.shape[1], shape)
            return kernel.measured[row, column] * _coins(rng, shape[:2])[..., None]
        shared = self.rho + (1 - self.rho) / self.workloads
        return FAMILIES[self.family](
            rng, shape, kernel.between * shared**0.5, kernel.within / self.workloads**0.5
        )

    def pairs(self, rng: Random, rows: int, count: int, blocks: int) -> Floats:
        """Draw `count` pair values of each of the rows."""
        values = np.empty((rows, count))
        step = max(1, CHUNK // (count * blocks))
        for start in range(0, rows, step):
            some = min(step, rows - start)
            values[start : start + some] = middle_means(self.blocks(rng, (some, count, blocks)))
        return values

    @property
    def calibrated(self) -> "Noise":
        """The noise a calibration sees, which is not always what a candidate has."""
        family = "normal" if self.family == "doubled noise" else self.family
        return Noise(self.kernel, family, self.workloads, self.rho)

    def seconds(self, pairs: Ints, blocks: Ints) -> Floats:
        """Return what so many pairs of so many blocks each cost."""
        block = self.kernel.block_seconds * self.workloads
        cost: Floats = pairs * (self.kernel.pair_seconds + blocks * block)
        return cost


def middle_means(blocks: Floats) -> Floats:
    """Return the mean of the middle half of each pair's blocks, as `pairs.middle_mean` does."""
    count = blocks.shape[-1]
    cut = count // 4
    if cut:
        blocks.sort(axis=-1)
    kept: Floats = blocks[..., cut : count - cut].mean(axis=-1)
    return kept
