"""A Triton solution's kernels, compiled ahead: where there is no device, while others are measured; light.

Best effort, and nothing is decided by it. What comes of it is an entry of the build cache that belongs to one
solution, on one model of device, for the workloads of one problem. The solution's own code ran for it, so it
is trusted no more than what a runner leaves: a judgement gives it to this solution's first runner alone.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from kernelarc_guard.ahead_rooms import Rooms
from kernelarc_guard.build import Built, Limits
from kernelarc_guard.cache_limit import AHEAD, LOCKS, prune_sometimes, used
from kernelarc_guard.definition import Definition, TensorSpec
from kernelarc_guard.entries import new_entry
from kernelarc_guard.faults import plain
from kernelarc_guard.profile_model import printable
from kernelarc_guard.protocol import BuildMessage
from kernelarc_guard.solution import Solution
from kernelarc_guard.workload import Workload

_FORMAT: Final = 1
"""Part of every key: raise it when what is compiled, or how it is kept, changes."""
LEFT: Final = "left.tar"
_TOLD: Final = "told.json"
_SAID_CHARACTERS: Final = 300


@dataclass(frozen=True)
class Order:
    """What is to be compiled ahead, and for what."""

    solution: Solution
    digest: str
    """Of what was built of it."""
    properties: Mapping[str, int | str]
    """What torch says of the device; empty: there is nothing to compile for."""
    definition: Definition
    workloads: Sequence[Workload]

    @property
    def sensible(self) -> bool:
        """Say whether there can be anything to compile."""
        return self.solution.may_use_triton and bool(self.properties) and bool(self.workloads)

    @property
    def calls(self) -> list[list[dict[str, Any]]]:
        """Return the arguments of the entry for each workload, those of like ones once."""
        found = [self._call(workload) for workload in self.workloads]
        return list({json.dumps(call): call for call in found}.values())

    @property
    def key(self) -> str:
        """Return the name of the entry: other versions of Triton or torch look for another."""
        named = [_FORMAT, self.digest, dict(self.properties), self.calls]
        text = json.dumps([*named, _installed("triton"), _installed("torch")], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def job(self) -> dict[str, Any]:
        """Return what `triton_ahead` is told, but where the sources are."""
        return {
            "binding": "python",
            "function": self.solution.entry_function,
            "destination_passing": self.solution.spec.destination_passing_style,
            "properties": dict(self.properties),
            "calls": self.calls,
        }

    def _call(self, workload: Workload) -> list[dict[str, Any]]:
        definition = self.definition
        resolved = definition.resolve(workload.axes)
        call = []
        for name, spec in definition.inputs.items():
            given = workload.inputs.get(name)
            value = None if given is None else given.value
            call.append(_argument(spec, definition.input_shape(name, resolved), value))
        if self.solution.spec.destination_passing_style:
            for name, spec in definition.outputs.items():
                call.append(_argument(spec, definition.output_shape(name, resolved), None))
        return call


def _argument(
    spec: TensorSpec, shape: tuple[int, ...] | None, value: bool | int | float | None
) -> dict[str, Any]:
    if shape is not None:
        return {"dtype": spec.dtype, "shape": list(shape)}
    if value is None:  # each call draws one: hardly one that Triton compiles for specially
        value = False if spec.dtype == "bool" else 3 if spec.dtype.startswith("int") else 2.5
    return {"value": value}


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def compile_ahead(
    order: Order, built: Built, cache_dir: Path, limits: Limits, rooms: Rooms
) -> bool:
    """Compile what can be, for whoever judges it later; False where that was done, is being done or cannot be.

    What was compiled in `limits.seconds` is kept. Raises OSError and SupervisorLost.
    """
    if not order.sensible or not limits.sandbox.bubblewrap:
        return False
    key = order.key
    final, locks = cache_dir / AHEAD / key, cache_dir / LOCKS
    locks.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(locks / f"{key}.lock", timeout=0):
            if (final / _TOLD).is_file():
                return False
            with new_entry(cache_dir, final) as work, rooms.taken(cache_dir, limits) as room:
                said = room.run(order.job, built)
                told = {"kernels": room.pack(work / LEFT), "said": said}
                (work / _TOLD).write_text(json.dumps(told), encoding="utf-8")
            used(final)
    except Timeout:
        return False
    prune_sometimes(cache_dir)
    return True


def found_ahead(order: Order, cache_dir: Path) -> tuple[Path | None, list[BuildMessage]]:
    """Return where the archive of what was compiled ahead is, and one line to tell; neither where none can be.

    Nothing is waited for: what is still being compiled is there when the first run begins, or is compiled in it
    as well. There is no line then, and no archive where nothing came of it.
    """
    if not order.sensible:
        return None, []
    entry = cache_dir / AHEAD / order.key
    try:
        told = json.loads((entry / _TOLD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return entry / LEFT, []
    used(entry)
    count = int(told["kernels"])
    line = f"Triton: {count} kernel{'' if count == 1 else 's'} compiled before the first run"
    if said := printable(plain(str(told["said"])), _SAID_CHARACTERS):
        line += f"; the first run compiles what else there is ({said})"
    message = BuildMessage(file=order.solution.entry_file, line=0, severity="info", message=line)
    return entry / LEFT, [message]
