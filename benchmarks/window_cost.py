"""What isolation costs on the CPU: starting a nursery and a runner, the first result, an empty window.

Prints a table with each protection this machine offers; the runner is a Python function that does
nothing, so a window of it is all overhead. Windows are printed close together and with the caches
evicted between, as in a measurement.

    python -m benchmarks.window_cost --windows 2000 --pairs 20
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from kernelarc_guard.arm import Arm
from kernelarc_guard.build import build
from kernelarc_guard.cores import PinnedAway
from kernelarc_guard.draws import Drawer
from kernelarc_guard.keeper import Nursery
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.sandbox import Sandbox, find_sandbox
from kernelarc_guard.solution import make_solution
from kernelarc_guard.window import Window
from kernelarc_mcp.data import data_dir

_NOTHING = "def run(*args):\n    pass\n"


def main() -> None:
    """Measure each protection."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print_costs(options.windows, options.pairs)


def print_costs(windows: int, pairs: int) -> None:
    """Print the table; a pair is two runners with one result each."""
    head = ("protection", "nursery s", "pair ms", "first ms", "window us", "window, evicted us")
    print(f"{head[0]:<22}{head[1]:>11}{head[2]:>22}{head[3]:>10}{head[4]:>22}{head[5]:>24}")
    print(f"{'a process that stops':<22}{'':>11}{'':>22}{'':>10}{_quartiles(_bare(windows)):>22}")
    found = find_sandbox()
    for kind in ("none", "landlock", "bubblewrap+landlock"):
        sandbox = replace(found, kind=kind, bubblewrap=found.bubblewrap if "+" in kind else "")
        if kind == "none" or found.kind in (kind, "bubblewrap+landlock"):
            with tempfile.TemporaryDirectory() as folder:
                _measure(sandbox, Path(folder), windows, pairs)


def _measure(sandbox: Sandbox, folder: Path, windows: int, pairs: int) -> None:
    problem = read_problem(data_dir("kernels") / "rmsnorm")
    fields = {
        "name": "nothing",
        "definition": problem.definition.name,
        "spec": {
            "languages": ["python"],
            "entry_point": "kernel.py::run",
            "destination_passing_style": True,
        },
        "sources": [{"path": "kernel.py", "content": _NOTHING}],
    }
    solution = make_solution(fields)
    built = build(solution, folder / "cache", seconds=60, memory_bytes=8 << 30, sandbox=sandbox)
    drawer = Drawer(problem, None)
    begin = time.monotonic()
    with (folder / "log").open("wb") as log:
        nursery = Nursery(sandbox, folder / "nursery", log)
        nursery.wait_ready()
        started = time.monotonic() - begin
        draw = drawer.draw(0)

        def arm(slot: int) -> Arm:
            return Arm(nursery, solution, built, drawer, Schedule(), slot, note=print)

        pair_ms, first_ms = [], []
        for _ in range(pairs):
            begin = time.monotonic()
            both = [arm(0), arm(1)]
            first = time.monotonic()
            both[0].call(0, draw, evict=False)
            first_ms.append((time.monotonic() - first) * 1e3)
            both[1].call(0, draw, evict=False)
            pair_ms.append((time.monotonic() - begin) * 1e3)
            for one in both:
                one.close()
        one = arm(0)
        with PinnedAway(drawer.threads):
            close = [one.idle_window() / 1e3 for _ in range(windows)]
            cold = []
            for _ in range(max(windows // 10, 10)):
                drawer.evict()
                cold.append(one.idle_window() / 1e3)
        one.close()
        nursery.close()
    print(
        f"{sandbox.kind:<22}{started:>11.2f}{_quartiles(pair_ms):>22}"
        f"{statistics.median(first_ms):>10.2f}{_quartiles(close):>22}{_quartiles(cold):>24}",
        flush=True,
    )


def _bare(count: int) -> list[float]:
    pid = os.fork()
    if pid == 0:
        while True:
            os.kill(os.getpid(), 19)
    window = Window(pid)
    window.wait_stopped(10)
    times = []
    for _ in range(count):
        window.check_still()
        times.append(window.go(10) / 1e3)
    window.kill()
    return times


def _quartiles(values: Sequence[float]) -> str:
    low, mid, high = statistics.quantiles(values, n=4)
    return f"{mid:.1f} ({low:.1f}-{high:.1f})"


if __name__ == "__main__":
    main()
