"""The highest rates that were ever measured on this machine, so that a bound does not follow the load of a day."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from kernelarc_guard.roofs import MEASURED, Roof, Roofs, at_least
from kernelarc_mcp.machine import describe_machine

_LOW: Final = 0.8
"""Measured below this share of what was seen before, the device was not idle, and that is said."""


class SeenRoofs:
    """One JSON file for each device and number of threads of this machine, as the guard names them."""

    def __init__(self, folder: Path) -> None:
        """Keep files in `folder`, which is made when there is something to keep."""
        self._folder = folder

    def best(self, now: Roofs, threads: int) -> tuple[Roofs, list[str]]:
        """Return the roofs with the highest rates seen here and keep them, and say where now is far below.

        A vendor's figures are left as they are. A folder that cannot be written keeps nothing.
        """
        path = self._path(now.device, threads)
        before = _read(path)
        if before is None:
            self._store(path, now)
            return now, []
        said: list[str] = []
        matrix = {
            dtype: _higher(roof, before.matrix.get(dtype), f"{dtype} products", said) or roof
            for dtype, roof in now.matrix.items()
        }
        best = now.model_copy(
            update={
                "memory": _higher(now.memory, before.memory, "copies", said),
                "writes": _higher(now.writes, before.writes, "writes", said),
                "matrix": matrix,
            }
        )
        self._store(path, best)
        return best, said

    def _path(self, device: str, threads: int) -> Path:
        key = hashlib.sha256(f"{describe_machine()}\n{device}\n{threads}".encode()).hexdigest()
        return self._folder / f"{key[:32]}.json"

    def _store(self, path: Path, roofs: Roofs) -> None:
        beside = path.with_suffix(f".{os.getpid()}.tmp")
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            beside.write_text(roofs.model_dump_json(), encoding="utf-8")
            beside.replace(path)


def _higher(now: Roof | None, before: Roof | None, what: str, said: list[str]) -> Roof | None:
    """Return the higher of two measured roofs; note in `said` where today's is far below."""
    if now is None or before is None or not (is_measured(now) and is_measured(before)):
        return now
    if now.per_second < _LOW * before.per_second:
        said.append(
            f"Just now {what} reached {now.per_second:.3g} a second, on {before.date}"
            f" {before.per_second:.3g}: something else ran, and the bounds use the higher rate."
        )
    return at_least(now, before)


def rulers_apart(seen: Roofs, used: Roofs) -> list[str]:
    """Say where a campaign's own rulers, which its bounds rest on, are far from what this machine shows."""
    if seen.memory is None or used.memory is None or not is_measured(seen.memory):
        return []
    low, high = sorted((seen.memory.per_second, used.memory.per_second))
    if low >= _LOW * high:
        return []
    return [
        f"The bounds rest on {used.memory.per_second:.3g} bytes a second, by the campaign's calibration of"
        f" {used.memory.date}; the best seen here is {seen.memory.per_second:.3g}, on"
        f" {seen.memory.date}. Bounds of `score --problem` use the latter."
    ]


def is_measured(roof: Roof) -> bool:
    """Say whether a roof was measured, by whichever ruler; else it is a vendor's figure."""
    return roof.source.startswith(MEASURED)


def _read(path: Path) -> Roofs | None:
    try:
        return Roofs.model_validate_json(path.read_bytes())
    except OSError:
        return None
    except ValidationError:
        # Written by another version: measured again.
        return None
