"""A bank of measured pairs, and virtual submissions decided from it by the shipped core.

A unit is one comparison in a nursery of its own. Units are lines of `bank-*.jsonl` in one folder,
written by any number of sessions and devices; together they are the bank.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.noise import Random, middle_means
from kernelarc_guard.calibration import calibrate_from
from kernelarc_guard.decide import Calibration, Parameters, block_values
from kernelarc_guard.model import Model
from kernelarc_guard.protocol import PairTimes
from kernelarc_guard.terms import Floats, Ints

WHOLE = (1.0,)
"""Weights of one workload."""


class Unit(Model):
    """One comparison: pairs of a nursery of its own."""

    subject: str
    planted: float
    """Delay (percent) that was meant to be in the record; 0: the same kernel twice."""
    cycles: int
    """What was planted."""
    device: str
    at: str
    seconds: float
    """From request to answer."""
    pairs: list[PairTimes]


def read_units(folder: Path) -> list[Unit]:
    """Return all units of a bank, the oldest first."""
    units = [
        Unit.model_validate_json(line)
        for path in sorted(folder.glob("bank-*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return sorted(units, key=lambda unit: unit.at)


def append_unit(path: Path, unit: Unit) -> None:
    """Add a unit to a file of the bank."""
    with path.open("a", encoding="utf-8") as file:
        file.write(unit.model_dump_json() + "\n")


@dataclass(frozen=True)
class Bank:
    """Pairs of one subject with one delay; draws whole pairs with replacement."""

    units: tuple[Unit, ...]

    @cached_property
    def nurseries(self) -> list[list[list[float]]]:
        """Return block values (percent), `[nursery][pair][block]`."""
        return [
            [
                block_values([(b.record, b.candidate) for b in pair.blocks], WHOLE)
                for pair in unit.pairs
            ]
            for unit in self.units
        ]

    @cached_property
    def blocks(self) -> Floats:
        """Return block values (percent), pairs x blocks."""
        return np.array([pair for nursery in self.nurseries for pair in nursery])

    @cached_property
    def values(self) -> Floats:
        """Return the value of each pair, all of its blocks used."""
        return middle_means(self.blocks.copy())

    def pairs(self, rng: Random, rows: int, count: int, blocks: int) -> Floats:
        """Draw `count` pair values of the first `blocks` blocks for each of the rows."""
        valued = middle_means(self.blocks[:, :blocks].copy())
        drawn: Floats = valued[rng.integers(0, len(valued), (rows, count))]
        return drawn

    def seconds(self, pairs: Ints, blocks: Ints) -> Floats:
        """Return what so many pairs cost, as they did here, whatever their blocks."""
        each = sum(unit.seconds for unit in self.units) / len(self.blocks)
        return np.asarray(pairs * each, np.float64)

    def calibration(self, parameters: Parameters, chosen: list[list[list[float]]]) -> Calibration:
        """Return the calibration that these pairs, by nursery, give."""
        each = sum(unit.seconds for unit in self.units) / len(self.blocks)
        # A block's share of a pair's cost is not in the rows: a tenth for each, the start the rest.
        block = each / (10 + self.blocks.shape[1])
        return calibrate_from(
            self.units[0].device, self.units[0].subject, "", chosen, 10 * block, block, parameters
        )

    def whole_calibration(self, parameters: Parameters) -> Calibration:
        """Return the calibration of all pairs."""
        return self.calibration(parameters, self.nurseries)

    def campaign_calibrations(
        self, rng: Random, count: int, pairs: int, parameters: Parameters
    ) -> Iterator[Calibration]:
        """Yield calibrations as campaigns begin with: some pairs of one nursery."""
        for _ in range(count):
            nursery = self.nurseries[rng.integers(len(self.nurseries))]
            chosen = rng.integers(0, len(nursery), pairs)
            yield self.calibration(parameters, [[nursery[i] for i in chosen]])


def banks(units: list[Unit]) -> dict[tuple[str, float], Bank]:
    """Return a bank for each subject and delay."""
    keys = dict.fromkeys((unit.subject, unit.planted) for unit in units)
    return {
        key: Bank(tuple(unit for unit in units if (unit.subject, unit.planted) == key))
        for key in keys
    }
