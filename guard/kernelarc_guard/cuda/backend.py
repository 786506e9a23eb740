"""The backend of one NVIDIA GPU (imports torch)."""

import gc
import math
import os
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from kernelarc_guard.arm import Arm
from kernelarc_guard.build import build
from kernelarc_guard.cores import other_cores
from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.arm import CudaArm
from kernelarc_guard.cuda.connections import connections_for
from kernelarc_guard.cuda.delayed_arm import DelayedArm
from kernelarc_guard.cuda.draws import CudaDrawer
from kernelarc_guard.cuda.holding import holding
from kernelarc_guard.cuda.planting import Planting
from kernelarc_guard.cuda.ruler_arm import RulerArm, ruler_solution
from kernelarc_guard.cuda.rulers import measure
from kernelarc_guard.cuda.turns import Turns
from kernelarc_guard.cuda.watching import DeviceWatch
from kernelarc_guard.device_state import DeviceState
from kernelarc_guard.draws import Drawer
from kernelarc_guard.faults import Refused
from kernelarc_guard.keeper import SLOTS, Nursery
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.rule import Rulers
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.solution import Solution
from kernelarc_guard.surroundings import PASSED_ON
from kernelarc_guard.warming import WARMED_FOR

if TYPE_CHECKING:
    from kernelarc_guard.bench import Bench, Contestant

_SHARED_NODES: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_CALLS: Final = 40
"""Timed calls of an arm in a block, over all workloads: more of them resolve no more, as what two
processes differ by stays."""
_LEAST_CALLS: Final = 3
_BUILD_SECONDS: Final = 60.0
_CONTEXT_BYTES: Final = 1 << 30
"""More than a context takes."""
_KEPT_BYTES: Final = 1 << 20
"""More than this between requests is a request's, not the guard's own."""


class CudaBackend:
    """One device, known to everybody by its UUID."""

    builds_beside = True

    def __init__(self, number: int, sandbox: Sandbox, folder: Path) -> None:
        """Open the guard's own context; raises Refused where that cannot be."""
        try:
            count = driver.device_count()
            if number >= count:
                raise Refused(
                    f"device 'cuda:{number}': this machine shows {count} NVIDIA devices, and 'cpu'"
                )
            driver.open_context(number)
            torch.zeros(1, device=f"cuda:{number}")
        except (driver.NoDriver, driver.CudaError, RuntimeError) as error:
            raise Refused(
                f"device 'cuda:{number}': {error}; this guard can measure on 'cpu'"
            ) from None
        torch.cuda.set_device(number)
        self._number = number
        self._sandbox = sandbox
        self._folder = folder
        self._uuid = driver.device_uuid(number)
        self._connections = connections_for(())
        self._turns = Turns()
        self._planting = Planting()
        self._watch = DeviceWatch(self._uuid)

    @property
    def lock(self) -> str:
        """Return the device's UUID."""
        return self._uuid

    @property
    def architecture(self) -> str:
        """Return the device's own architecture, with what only it has from 9.0 on."""
        return driver.architecture(self._number)

    @property
    def place(self) -> str:
        """Return the device as torch knows it."""
        return f"cuda:{self._number}"

    @property
    def memory_bytes(self) -> int:
        """Return the device's memory."""
        return driver.free_bytes()[1]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the files of this device and those that all devices share."""
        return (*_SHARED_NODES, *_own_nodes(self._uuid))

    @property
    def environment(self) -> dict[str, str]:
        """Return an environment in which this is the only device."""
        told = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        warmed = self.architecture.rstrip("a")
        return told | {"CUDA_VISIBLE_DEVICES": self._uuid, WARMED_FOR: warmed}

    def drawer(self, problem: Problem, evict_bytes: int | None) -> CudaDrawer:
        """Return what makes inputs in the guard's memory on the device."""
        self._turns.begin(problem.digest)
        return CudaDrawer(problem, evict_bytes, self._number)

    def start(
        self,
        nursery: Nursery,
        contestant: "Contestant",
        drawer: Drawer,
        schedule: Schedule,
        note: Callable[[str], None],
        awake: bool,
    ) -> Arm:
        """Fork a runner with a context of its own; raises SolutionFault."""
        assert isinstance(drawer, CudaDrawer)
        if drawer.thrifty:
            torch.cuda.empty_cache()  # a runner's buffers do not come from the allocator
        start = CudaArm if not contestant.delays else self._delayed(contestant.delays, awake)
        return start(
            nursery,
            contestant.solution,
            contestant.built,
            drawer,
            schedule,
            contestant.slot,
            note,
            awake=awake,
            turns=self._turns,
            environment=self._connections,
        )

    def planted(
        self,
        bench: "Bench",
        nursery: Nursery,
        record: "Contestant",
        candidate: "Contestant",
        percent: float,
    ) -> "Contestant":
        """Measure how long the record's calls take, and return what to add to them."""
        return self._planting.plant(bench, nursery, record, candidate, percent)

    def _delayed(self, delays: tuple[int, ...], awake: bool) -> Callable[..., Arm]:
        planting = self._planting
        planting.refuse_other_calls(delays, awake)
        return partial(DelayedArm, delays=delays, clock=planting.clock, heed=planting.heed)

    def wants_ruler(self) -> bool:
        """Say so for the first pairs, and for some of the later ones."""
        return self._turns.wants_ruler()

    def start_ruler(self, nursery: Nursery, bench: "Bench") -> Arm:
        """Fork a runner that launches the smallest kernel; raises SolutionFault."""
        assert isinstance(bench.drawer, CudaDrawer)
        solution = ruler_solution(bench.problem.definition)
        built = build(
            solution,
            self._folder / "ruler",
            seconds=_BUILD_SECONDS,
            memory_bytes=bench.schedule.memory_bytes,
            sandbox=self._sandbox,
        )
        return RulerArm(
            nursery,
            solution,
            built,
            bench.drawer,
            bench.schedule,
            SLOTS.index("ruler"),
            bench.note,
            awake=False,
            turns=self._turns,
            environment=self._connections,
        )

    def heed_ruler(self, longer: list[int]) -> None:
        """Take the median of its last runs off windows."""
        self._turns.add_beside(longer)

    def suit(self, solutions: Iterable[Solution], schedule: Schedule, workloads: int) -> Schedule:
        """Open contexts as these solutions need them; time fewer calls of each of many workloads."""
        self._connections = connections_for(solutions)
        calls = max(_LEAST_CALLS, math.ceil(_CALLS / workloads))
        update = {"calls": min(schedule.calls, calls)}
        if calls < schedule.calls:
            update["anchor_calls"] = 1
        return schedule.model_copy(update=update)

    def fork_ahead(self, nursery: Nursery, count: int, threads: int) -> None:
        """Let runners open their contexts, where there is memory for them."""
        free, total = driver.free_bytes()
        room = (free - total // 4) // _CONTEXT_BYTES
        if room > 0:
            count = min(count, nursery.ahead + room)
            nursery.fork_ahead(count, other_cores(threads), self._connections)

    def wait_ahead(self, nursery: Nursery) -> None:
        """Wait until their contexts are open: each takes a turn on the device once, or twice.

        The end of a context was never seen in any window (docs/measurements/h200_verdict.md).
        """
        nursery.wait_ahead()

    def warmups(self, workload: int, schedule: Schedule, awake: bool) -> int:
        """Return one call, as libraries and kernels are loaded then; the first queued one is slow too."""
        return schedule.warmup_calls if awake or not workload else min(1, schedule.warmup_calls)

    def steady(self) -> AbstractContextManager[None]:
        """Hold the clocks, only where that was asked for."""
        return self._watch.steady()

    def holding(self, workload: int | None = None) -> AbstractContextManager[None]:
        """Return what blames the candidate where it left the guard no memory."""
        return holding(workload)

    def tidy(self) -> None:
        """Give the allocator's memory back: the next runner may need it."""
        if torch.cuda.memory_allocated() > _KEPT_BYTES:
            gc.collect()  # a request that was cut off leaves rings of frames and tensors
        torch.cuda.empty_cache()

    def look(self) -> DeviceState:
        """Return clocks, power, temperature, free memory and who else is on the device."""
        return self._watch.look()

    def rulers(
        self, bench: "Bench", nursery: Nursery, record: "Contestant", before: Rulers | None
    ) -> Rulers:
        """Measure what the device does at best; empty windows are taken off already."""
        return measure(self.place, self._turns.usual_ns, before)


def _own_nodes(uuid: str) -> list[str]:
    """Return the device files of one GPU, those of all where the kernel does not say which it is."""
    for told in Path("/proc/driver/nvidia/gpus").glob("*/information"):
        text = told.read_text(errors="replace")
        minor = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
        if uuid in text and minor is not None:
            return [f"/dev/nvidia{minor[1]}"]
    return sorted(str(node) for node in Path("/dev").glob("nvidia[0-9]*"))
