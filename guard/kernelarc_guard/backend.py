"""What differs between devices, behind one interface (imports torch).

Everything else in the guard (windows of the warden, probes, tolerance, the rule) is the same for all.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kernelarc_guard.arm import Arm
from kernelarc_guard.device_state import DeviceState
from kernelarc_guard.draws import Drawer
from kernelarc_guard.faults import Refused
from kernelarc_guard.keeper import Nursery
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.rule import Rulers
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.solution import Solution

if TYPE_CHECKING:
    from kernelarc_guard.bench import Bench, Contestant

Note = Callable[[str], None]


class Backend(Protocol):
    """One device."""

    @property
    def lock(self) -> str:
        """Return the name of the device's lock: the same for everybody who can reach it."""

    @property
    def architecture(self) -> str:
        """Return what native code is built for, as in ``90a``; empty: the host."""

    @property
    def builds_beside(self) -> bool:
        """Say whether compilers may work while somebody measures on the device."""

    @property
    def place(self) -> str:
        """Return the torch device of inputs and references."""

    @property
    def memory_bytes(self) -> int | None:
        """Return the device's memory; None: it is this machine's."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the device files that its runners need."""

    @property
    def environment(self) -> dict[str, str]:
        """Return what its nurseries find in their environment beside the usual."""

    def drawer(self, problem: Problem, evict_bytes: int | None) -> Drawer:
        """Return what makes a problem's inputs."""

    def start(
        self,
        nursery: Nursery,
        contestant: "Contestant",
        drawer: Drawer,
        schedule: Schedule,
        note: Note,
        awake: bool,
    ) -> Arm:
        """Fork a runner for a solution; raises SolutionFault.

        `awake`: its calls are not queued, on devices where they otherwise are.
        """

    def planted(
        self,
        bench: "Bench",
        nursery: Nursery,
        record: "Contestant",
        candidate: "Contestant",
        percent: float,
    ) -> "Contestant":
        """Return the candidate, which is the record again, slower by `percent` or more as it then says.

        Raises CandidateFault and Refused.
        """

    def wants_ruler(self) -> bool:
        """Say, once for each pair, whether it is time to measure again what windows hold beside calls."""

    def start_ruler(self, nursery: Nursery, bench: "Bench") -> Arm:
        """Fork a runner of the guard's own, whose windows hold nothing else; raises SolutionFault.

        It has the buffers of the smallest workload, as its workload 0.
        """

    def heed_ruler(self, longer: list[int]) -> None:
        """Take off, from now on, what that runner's windows took beside calls more than before."""

    def suit(self, solutions: Iterable[Solution], schedule: Schedule, workloads: int) -> Schedule:
        """Be ready for a judgement of these solutions, and return how much of it is measured."""

    def fork_ahead(self, nursery: Nursery, count: int, threads: int) -> None:
        """See that runners are on their way that nobody's solution was given to, where that helps."""

    def wait_ahead(self, nursery: Nursery) -> None:
        """Wait until runners that are on their way have come so far that they do nothing more."""

    def warmups(self, workload: int, schedule: Schedule, awake: bool) -> int:
        """Return how many calls of a workload are checked and not timed when a runner starts."""

    def steady(self) -> AbstractContextManager[None]:
        """Hold the device's clocks while it is leased, where its operator asked for that."""

    def holding(self, workload: int | None = None) -> AbstractContextManager[None]:
        """Return what blames the candidate where the guard's work finds no memory for its sake.

        Inside, the candidate's runner is alive; SolutionFault where it holds the device's memory,
        Refused where nobody does and the problem is too large.
        """

    def tidy(self) -> None:
        """Give back what the guard needed for one request."""

    def look(self) -> DeviceState | None:
        """Return the device's state, None where it has none that is worth keeping."""

    def rulers(
        self, bench: "Bench", nursery: Nursery, record: "Contestant", before: Rulers | None
    ) -> Rulers:
        """Return the best that the device showed, now and `before`."""


class CpuBackend:
    """The processor of this machine."""

    lock = "cpu"
    architecture = ""
    builds_beside = False
    place = "cpu"
    memory_bytes: int | None = None
    nodes: tuple[str, ...] = ()
    environment: dict[str, str] = {}

    def drawer(self, problem: Problem, evict_bytes: int | None) -> Drawer:
        """Return what makes inputs in the guard's memory."""
        return Drawer(problem, evict_bytes)

    def start(
        self,
        nursery: Nursery,
        contestant: "Contestant",
        drawer: Drawer,
        schedule: Schedule,
        note: Note,
        awake: bool,
    ) -> Arm:
        """Fork a runner; raises SolutionFault."""
        return Arm(
            nursery,
            contestant.solution,
            contestant.built,
            drawer,
            schedule,
            contestant.slot,
            note,
            contestant.planted,
        )

    def planted(
        self,
        bench: "Bench",
        nursery: Nursery,
        record: "Contestant",
        candidate: "Contestant",
        percent: float,
    ) -> "Contestant":
        """Return it with just that: its runner waits busily after each call."""
        return replace(candidate, planted=percent)

    def wants_ruler(self) -> bool:
        """Return False: a window is the call, from waking its process to its stop."""
        return False

    def start_ruler(self, nursery: Nursery, bench: "Bench") -> Arm:
        """Raise NotImplementedError: none is ever wanted."""
        raise NotImplementedError

    def heed_ruler(self, longer: list[int]) -> None:
        """Do nothing: nothing is taken off."""

    def suit(self, solutions: Iterable[Solution], schedule: Schedule, workloads: int) -> Schedule:
        """Return the schedule as it is: a runner is what it is for every solution."""
        return schedule

    def fork_ahead(self, nursery: Nursery, count: int, threads: int) -> None:
        """Do nothing: a fork takes milliseconds."""

    def wait_ahead(self, nursery: Nursery) -> None:
        """Do nothing: none are forked."""

    def warmups(self, workload: int, schedule: Schedule, awake: bool) -> int:
        """Return the schedule's number."""
        return schedule.warmup_calls

    def steady(self) -> AbstractContextManager[None]:
        """Do nothing: a processor's clocks are its system's."""
        return nullcontext()

    def holding(self, workload: int | None = None) -> AbstractContextManager[None]:
        """Do nothing: a runner's memory is bounded from the start."""
        return nullcontext()

    def tidy(self) -> None:
        """Do nothing: the allocator of a CPU gives back at once."""

    def look(self) -> None:
        """Return nothing: load beside the guard shows as noise."""

    def rulers(
        self, bench: "Bench", nursery: Nursery, record: "Contestant", before: Rulers | None
    ) -> Rulers:
        """Measure empty windows of the record's runner, and this core's memory."""
        from kernelarc_guard.measuring_rulers import measure_rulers

        return measure_rulers(bench, nursery, record, before)


def open_backend(device: str, sandbox: Sandbox, folder: Path) -> Backend:
    """Return a device's backend; raises Refused where there is no such device.

    Its files, where it needs any, are in `folder`.
    """
    if device == "cpu":
        return CpuBackend()
    kind, _, number = device.partition(":")
    if kind != "cuda" or not number.isdecimal():
        raise Refused(f"device {device!r}: expected 'cpu' or 'cuda:N', for instance 'cuda:0'")
    from kernelarc_guard.cuda.backend import CudaBackend

    return CudaBackend(int(number), sandbox, folder)
