"""What carries the fixed offset between two processes that run the same kernel?

Two runners of one problem's seed, in a real nursery, are compared block by block: a value is 100 * ln of the ratio of
their median calls. Between two draws something is drawn anew, and only that:

    nothing         the same two processes go on (the control)
    pages           same processes and addresses; the physical pages of all buffers are given back and faulted in anew
    core            same processes, moved to the other core and back, the guard to the one they left
    module          same processes; the kernel's shared library is loaded once more, from a copy of its file
    processes       a fresh pair of runners of the same nursery
    nursery         a fresh pair of runners of a fresh nursery
    nursery, fixed  the same without address space randomisation

What is printed: the standard deviation of a block within a draw, that of the offset between draws (with the part that
the blocks explain taken off) and its upper 95 % bound, and the F statistic of the draws with the chance that equal
offsets give it. The carrier
is what moves the offset as much as fresh processes do. With --clock cpu the runner's CPU time takes the place of the
window: on a machine that others use it leaves out what waiting for a core costs, though not what they do to the caches.

    python -m benchmarks.offset_carrier --draws 12 --blocks 8
"""

import argparse
import base64
import ctypes
import math
import os
import secrets
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from kernelarc_guard.arm import Arm
from kernelarc_guard.buffers import BufferSet
from kernelarc_guard.build import Built, build
from kernelarc_guard.calibration import upper_factor
from kernelarc_guard.cores import ALL, PinnedAway
from kernelarc_guard.draws import Drawer
from kernelarc_guard.keeper import Nursery
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.processes import descendants
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.sandbox import Sandbox, find_sandbox
from kernelarc_guard.solution import Solution, make_solution, seed_solution
from kernelarc_mcp.data import data_dir

_HOLE = 3
"""FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE."""
_NO_RANDOMISATION = 0x0040000
_LIBC = ctypes.CDLL(None, use_errno=True)
_RELOADING = """import base64, os
from pathlib import Path
from kernelarc_guard.dltensor import as_dltensor, load_function

LIBRARY = base64.b64decode({library!r})
state = {{"calls": 0, "kernel": None, "known": {{}}}}


def load():
    path = Path(os.getcwd()) / f"copy-{{state['calls']}}.so"
    path.write_bytes(LIBRARY)
    state["kernel"] = load_function(path, {function!r})


def run(*tensors):
    if state["calls"] % {period} == 0:
        load()
    state["calls"] += 1
    known = state["known"]
    key = tuple(map(id, tensors))
    if key not in known:
        known[key] = [as_dltensor(one) for one in tensors]
    state["kernel"](*known[key])
"""


def main() -> None:
    """Measure each way of drawing anew and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--problem", default="rmsnorm", help="its seed has to be one C++ file")
    parser.add_argument("--draws", type=int, default=12, help="of each way")
    parser.add_argument("--blocks", type=int, default=8, help="of each draw")
    parser.add_argument("--calls", type=int, default=5, help="of each runner in a block")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--evict", type=int, help="bytes read between calls (1.5 times the cache)")
    options = parser.parse_args()
    if options.draws < 2 or options.blocks < 2:
        parser.error("--draws and --blocks: two or more")
    torch.set_num_threads(1)
    print(
        f"{'drawn anew':<16}{'draws':>6}{'block sd %':>12}{'offset sd %':>13}{'at most':>9}"
        f"{'F':>8}{'chance':>9}  offsets %"
    )
    with tempfile.TemporaryDirectory() as folder:
        bench = Comparison(Path(folder), options)
        ways: dict[str, Callable[[], Iterator[list[float]]]] = {
            "nothing": lambda: bench.same_processes(lambda: None),
            "pages": lambda: bench.same_processes(bench.give_pages_back),
            "core": bench.other_core,
            "module": bench.module_again,
            "processes": bench.fresh_processes,
            "nursery": bench.fresh_nurseries,
            "nursery, fixed": bench.fixed_addresses,
        }
        for name, draws in ways.items():
            print_row(name, list(draws()))


class _Remembering(Drawer):
    """Knows the buffers that it made."""

    def __init__(self, problem: Problem, evict_bytes: int | None) -> None:
        super().__init__(problem, evict_bytes)
        self.made: list[BufferSet] = []

    def buffers(self, workload: int, outputs: bool) -> BufferSet:
        """Return new buffers, and remember them."""
        self.made.append(super().buffers(workload, outputs))
        return self.made[-1]


class _Counting(Nursery):
    """Knows the CPU time of its last window."""

    cpu_ns = 0

    def ask(
        self, body: dict[str, Any], seconds: float, fds: tuple[int, ...] = ()
    ) -> tuple[dict[str, Any], list[int]]:
        """Send one operation and return its answer; raises NurseryLost."""
        answer, opened = super().ask(body, seconds, fds)
        self.cpu_ns = answer.get("cpu_ns", 0)
        return answer, opened


class Comparison:
    """Makes the draws; each is a list of block values in percent."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        path = data_dir("kernels") / options.problem
        self._problem: Problem = read_problem(path)
        seed = seed_solution(path, self._problem.definition)
        assert seed is not None
        self._options = options
        self._folder = folder
        self._sandbox: Sandbox = find_sandbox()
        self._drawer = _Remembering(self._problem, options.evict)
        self._seed = seed
        self._built = self._build(seed)
        self._nurseries = 0

    def same_processes(self, between: Callable[[], None]) -> Iterator[list[float]]:
        """Keep one pair of runners and do something between the draws."""
        with self._nursery() as nursery, self._pair(nursery, self._seed, self._built) as arms:
            for _ in range(self._options.draws):
                yield self._values(arms)
                between()

    def give_pages_back(self) -> None:
        """Free the physical pages of the live runners' buffers."""
        for one in self._drawer.made:
            if _LIBC.fallocate(one.fd, _HOLE, ctypes.c_long(0), ctypes.c_long(one.size)) != 0:
                raise OSError(ctypes.get_errno(), "fallocate")

    def other_core(self) -> Iterator[list[float]]:
        """Swap cores with the runners between the draws."""
        if len(ALL) < 2:
            return
        with self._nursery() as nursery:
            before = set(descendants(nursery.pid))
            with self._pair(nursery, self._seed, self._built) as arms:
                runners = set(descendants(nursery.pid)) - before
                for draw in range(self._options.draws):
                    runs, waits = (ALL[-1], ALL[0]) if draw % 2 == 0 else (ALL[0], ALL[-1])
                    for pid in runners:
                        os.sched_setaffinity(pid, {runs})
                    for pid in (*before, 0):
                        os.sched_setaffinity(pid, {waits})
                    yield self._values(arms)

    def module_again(self) -> Iterator[list[float]]:
        """Let the runners load a copy of the kernel's library before each draw."""
        source = _RELOADING.format(
            library=base64.b64encode(self._built.entry.read_bytes()).decode("ascii"),
            function=self._seed.entry_function,
            period=1 + self._options.blocks * self._options.calls,
        )
        fields = {
            "name": "reloading",
            "definition": self._problem.definition.name,
            "spec": {
                "languages": ["pytorch"],
                "entry_point": "kernel.py::run",
                "destination_passing_style": True,
            },
            "sources": [{"path": "kernel.py", "content": source}],
        }
        solution = make_solution(fields)
        built = self._build(solution)
        with self._nursery() as nursery, self._pair(nursery, solution, built) as arms:
            for _ in range(self._options.draws):
                yield self._values(arms)

    def fresh_processes(self) -> Iterator[list[float]]:
        """Fork a new pair for each draw."""
        with self._nursery() as nursery:
            for _ in range(self._options.draws):
                with self._pair(nursery, self._seed, self._built) as arms:
                    yield self._values(arms)

    def fresh_nurseries(self) -> Iterator[list[float]]:
        """Start a new nursery for each draw."""
        for _ in range(self._options.draws):
            with self._nursery() as nursery, self._pair(nursery, self._seed, self._built) as arms:
                yield self._values(arms)

    def fixed_addresses(self) -> Iterator[list[float]]:
        """Start a new nursery for each draw, always at the same addresses."""
        before = _LIBC.personality(0xFFFFFFFF)
        _LIBC.personality(before | _NO_RANDOMISATION)
        try:
            yield from self.fresh_nurseries()
        finally:
            _LIBC.personality(before)

    @contextmanager
    def _nursery(self) -> Iterator[Nursery]:
        self._nurseries += 1
        with (self._folder / "log").open("ab") as log:
            nursery = _Counting(self._sandbox, self._folder / f"nursery-{self._nurseries}", log)
            self._nursery_in_use = nursery
            try:
                nursery.wait_ready()
                yield nursery
            finally:
                nursery.close()

    @contextmanager
    def _pair(self, nursery: Nursery, solution: Solution, built: Built) -> Iterator[list[Arm]]:
        self._drawer.made.clear()
        with ExitStack() as stack:
            arms = []
            for slot in (0, 1):
                arm = Arm(nursery, solution, built, self._drawer, Schedule(), slot, note=print)
                stack.callback(arm.close)
                arms.append(arm)
            with PinnedAway(1):
                yield arms

    def _build(self, solution: Solution) -> Built:
        cache = self._folder / "cache"
        return build(solution, cache, seconds=120, memory_bytes=8 << 30, sandbox=self._sandbox)

    def _values(self, arms: list[Arm]) -> list[float]:
        """Return a draw's block values; the first call of each runner is not timed."""
        self._times(arms, evict=False)
        values = []
        for _ in range(self._options.blocks):
            times = [self._times(arms) for _ in range(self._options.calls)]
            first, second = (statistics.median(one[arm] for one in times) for arm in (0, 1))
            values.append(100 * math.log(first / second))
        return values

    def _times(self, arms: list[Arm], *, evict: bool = True) -> list[int]:
        draw = self._drawer.fresh(0)
        times = [0, 0]
        first = secrets.randbits(1)
        for arm in (first, 1 - first):
            times[arm] = arms[arm].call(0, draw, evict=evict)
            if self._options.clock == "cpu":
                times[arm] = self._nursery_in_use.cpu_ns
        return times


def print_row(name: str, draws: list[list[float]]) -> None:
    """Print what one way of drawing anew moved."""
    if not draws:
        print(f"{name:<16}{'not here: one core':>30}")
        return
    blocks = len(draws[0])
    means = [statistics.fmean(draw) for draw in draws]
    within = statistics.fmean(statistics.variance(draw) for draw in draws)
    between = statistics.variance(means)
    ratio = between * blocks / within
    offset = math.sqrt(max(0.0, between - within / blocks))
    upper = between * upper_factor(len(means), 0.95) ** 2
    most = math.sqrt(max(0.0, upper - within / blocks))
    chance = _chance(ratio, len(draws) - 1, len(draws) * (blocks - 1))
    shown = " ".join(f"{mean:+.1f}" for mean in means)
    print(
        f"{name:<16}{len(draws):>6}{math.sqrt(within):>12.2f}{offset:>13.2f}{most:>9.2f}"
        f"{ratio:>8.2f}{chance:>9.4f}  {shown}",
        flush=True,
    )


def _chance(ratio: float, freedom: int, within: int) -> float:
    """Return the chance that draws without offsets of their own have so large an F."""
    from scipy.special import fdtrc

    return float(fdtrc(freedom, within, ratio))


if __name__ == "__main__":
    main()
