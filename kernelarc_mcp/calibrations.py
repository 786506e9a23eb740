"""Calibrations kept between commands, so that judging one file after another does not repeat them.

A calibration over several nurseries is believed for a week, a short one for a day, and each only on
the machine it was measured on.
"""

import hashlib
import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from kernelarc_guard.calibration import LEAST_NURSERIES
from kernelarc_guard.decide import Calibration
from kernelarc_guard.model import Model
from kernelarc_guard.problem import Problem
from kernelarc_guard.solution import Solution
from kernelarc_mcp.machine import describe_machine
from kernelarc_mcp.noise import age_of

WEEK = timedelta(days=7)
DAY = timedelta(days=1)


class StoredCalibration(Model):
    """A calibration with what it was measured on."""

    problem: str
    """Name of the problem's definition."""
    record: str
    """Name of the solution that was compared with itself."""
    record_digest: str
    machine: str
    calibration: Calibration

    def believed(self, now: datetime) -> bool:
        """Say whether a judgement on this machine may rest on it."""
        if self.calibration.rulers is None:
            # Of a version that measured none; the guard judges nothing without.
            return False
        thorough = len(self.calibration.nurseries) >= LEAST_NURSERIES
        age = age_of(self.calibration, now)
        return self.machine == describe_machine() and timedelta() <= age < (
            WEEK if thorough else DAY
        )


class CalibrationCache:
    """One JSON file per device, problem and record."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        """Keep files in `folder`; with `fresh`, ignore those that are there."""
        self._folder = folder
        self._fresh = fresh

    def load(self, device: str, problem: Problem, record: Solution) -> Calibration | None:
        """Return the calibration of these on this machine, if it is still believed."""
        found = None if self._fresh else _read(self._path(device, problem, record))
        if found is None or not found.believed(datetime.now(UTC)):
            return None
        return found.calibration

    def store(self, problem: Problem, record: Solution, calibration: Calibration) -> None:
        """Keep a calibration; a cache that cannot be written is no fault of the judgement.

        A short one does not take the place of a thorough one that is still believed.
        """
        path = self._path(calibration.device, problem, record)
        before = _read(path)
        if before is not None and before.believed(datetime.now(UTC)):
            thorough = len(before.calibration.nurseries) >= LEAST_NURSERIES
            if thorough and len(calibration.nurseries) < LEAST_NURSERIES:
                return
        kept = StoredCalibration(
            problem=problem.definition.name,
            record=record.name,
            record_digest=record.digest,
            machine=describe_machine(),
            calibration=calibration,
        )
        beside = path.with_suffix(f".{os.getpid()}.tmp")
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            beside.write_text(kept.model_dump_json(), encoding="utf-8")
            beside.replace(path)

    def stored(self) -> list[StoredCalibration]:
        """Return every calibration that is kept, believed or not, the newest first."""
        read = (_read(path) for path in sorted(self._folder.glob("*.json")))
        found = [one for one in read if one is not None]
        return sorted(found, key=lambda one: one.calibration.at, reverse=True)

    def _path(self, device: str, problem: Problem, record: Solution) -> Path:
        key = f"{device}\n{problem.digest}\n{record.digest}"
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _read(path: Path) -> StoredCalibration | None:
    try:
        return StoredCalibration.model_validate_json(path.read_bytes())
    except OSError:
        return None
    except ValidationError:
        # Written by another version: measured again.
        return None
