"""Calibrations kept for a day, so that judging one file after another does not repeat them."""

import hashlib
import os
import platform
import time
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from kernelarc_guard.decide import Calibration

LIFETIME = 24 * 3600.0
"""Seconds a calibration is believed: the machine around it changes."""


class CalibrationCache:
    """One JSON file per device, problem, record and machine."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        """Keep files in `folder`; with `fresh`, ignore those that are there."""
        self._folder = folder
        self._fresh = fresh

    def load(self, device: str, problem: str, record: str) -> Calibration | None:
        """Return the calibration for these digests on this machine, if it is fresh."""
        if self._fresh:
            return None
        path = self._path(device, problem, record)
        try:
            if not 0 <= time.time() - path.stat().st_mtime < LIFETIME:
                return None
            return Calibration.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            # Written by another version: measured again.
            return None

    def store(self, device: str, problem: str, record: str, calibration: Calibration) -> None:
        """Keep a calibration; a cache that cannot be written is no fault of the judgement."""
        path = self._path(device, problem, record)
        beside = path.with_suffix(f".{os.getpid()}.tmp")
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            beside.write_text(calibration.model_dump_json(), encoding="utf-8")
            beside.replace(path)

    def _path(self, device: str, problem: str, record: str) -> Path:
        key = f"{device}\n{problem}\n{record}\n{_machine()}"
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _machine() -> str:
    return "\n".join((platform.node(), platform.machine(), str(os.cpu_count()), _cpu_model()))


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith("model name")), "")
