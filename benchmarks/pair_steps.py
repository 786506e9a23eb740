"""Where a pair's time goes: a guard whose steps are timed, and tables of what it wrote.

    python -m benchmarks.pair_steps TRACE [what the guard takes]

is the guard itself, with a line of JSON in the file TRACE for every pair that it measures, every smoke run and every
correctness stage: its seconds and the milliseconds of each step, without the steps inside it. `gpu_time_to_verdict.py --steps` starts it. The wrappers take some
hundredths of a pair's time, so how long pairs take is better read without.
"""

import json
import shlex
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, TextIO

ROOT: Final = Path(__file__).resolve().parents[1]
REST: Final = "everything else"
PAIR: Final = "pair"


class Steps:
    """The steps of the pair or stage that is under way, each with its own milliseconds."""

    def __init__(self, trace: TextIO) -> None:
        """Write a line for every pair and stage to `trace`."""
        self._trace = trace
        self._spent: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)
        self._inside: list[float] = []
        """Seconds of the steps within each of the open ones; empty outside of pairs and stages."""
        self._ruler = False

    def timed(self, owner: object, attribute: str, step: str) -> None:
        """Have a function's calls counted towards a step from now on."""
        call = getattr(owner, attribute)

        @wraps(call)
        def counted(*args: Any, **more: Any) -> Any:
            if not self._inside:
                return call(*args, **more)
            begin = time.perf_counter()
            self._inside.append(0.0)
            try:
                return call(*args, **more)
            finally:
                spent = time.perf_counter() - begin
                self._spent[step] += spent - self._inside.pop()
                self._counts[step] += 1
                self._inside[-1] += spent

        setattr(owner, attribute, counted)

    def watch(self, owner: object, attribute: str, what: str) -> None:
        """Have every call of a function that takes a pair or a stage begin anew and end with a line."""
        call = getattr(owner, attribute)

        @wraps(call)
        def watched(*args: Any) -> Any:
            self._spent.clear()
            self._counts.clear()
            self._inside, self._ruler = [0.0], False
            begin = time.perf_counter()
            try:
                given = call(*args)
            finally:
                self._inside = []
            self._write(what, given, time.perf_counter() - begin)
            return given

        setattr(owner, attribute, watched)

    def watch_rulers(self, owner: Any) -> None:
        """Take note of the pairs that have a ruler's runner, too."""
        call = owner.start

        @wraps(call)
        def watched(ruler: Any, nursery: Any) -> None:
            self._ruler = bool(ruler.runners)
            call(ruler, nursery)

        owner.start = watched

    def _write(self, what: str, given: Any, seconds: float) -> None:
        own = {step: 1e3 * spent for step, spent in self._spent.items()}
        own[REST] = 1e3 * seconds - sum(own.values())
        blocks = given.blocks if what == PAIR else []
        line = {
            "what": what,
            "runners": 1 if what != PAIR else 3 if any(block.anchor for block in blocks) else 2,
            "ruler": self._ruler,
            "blocks": len(blocks),
            "seconds": round(seconds, 4),
            "ms": {step: round(spent, 3) for step, spent in own.items()},
            "calls": dict(self._counts),
        }
        self._trace.write(json.dumps(line) + "\n")
        self._trace.flush()


def steps() -> list[tuple[str, Any, Sequence[str]]]:
    """Return each step with where its functions are; imports torch."""
    from kernelarc_guard.arm import Arm
    from kernelarc_guard.bench import Bench
    from kernelarc_guard.buffers import BufferSet
    from kernelarc_guard.cuda.arm import CudaArm
    from kernelarc_guard.cuda.buffers import CudaBuffers
    from kernelarc_guard.cuda.draws import CudaDrawer
    from kernelarc_guard.cuda.seal import Seal
    from kernelarc_guard.draws import Drawer
    from kernelarc_guard.dying import Dying
    from kernelarc_guard.keeper import Nursery, Runner

    return [
        ("waiting for the runners' first calls", Nursery, ["finish_together"]),
        ("right answers in both precisions", Bench, ["answer"]),
        ("buffers: allocated, exported, given back", CudaBuffers, ["__init__", "export", "close"]),
        ("buffers: allocated, exported, given back", Arm, ["_new_buffers"]),
        ("runners open contexts and map", CudaArm, ["_load", "wait_mapped"]),
        ("memory beside the tensors, and inputs", CudaBuffers, ["broken_canary", "changed_inputs"]),
        ("memory beside the tensors, and inputs", BufferSet, ["broken_canary", "changed_inputs"]),
        ("windows", CudaArm, ["_window"]),
        ("windows", Arm, ["_go"]),
        ("comparing outputs", Bench, ["judge", "agree"]),
        ("empty windows, beside the windows themselves", CudaArm, ["get_ready"]),
        # In correctness these are whole calls, as far as the guard waits for them.
        ("launches behind go", Runner, ["begin", "finish"]),
        ("fresh inputs, poison, canaries, eviction", Drawer, ["draw", "evict"]),
        ("fresh inputs, poison, canaries, eviction", CudaDrawer, ["evict"]),
        ("fresh inputs, poison, canaries, eviction", BufferSet, ["fill"]),
        ("fresh inputs, poison, canaries, eviction", CudaBuffers, ["prepare", "deliver"]),
        ("the seal: pieces copied at done and again", Seal, ["take", "changed"]),
        ("forks, contexts, ends", Bench, ["start", "fork_ahead", "refill", "be_quiet"]),
        ("forks, contexts, ends", Bench, ["part_with"]),
        ("forks, contexts, ends", Dying, ["bury"]),
        ("loading", Arm, ["wait_loaded"]),
        ("loading", CudaArm, ["begin_loading", "wait_loaded"]),
        ("copies of outputs", Arm, ["outputs"]),
        ("copies of outputs", CudaArm, ["outputs"]),
        ("values of other kinds, made legal", Bench, ["other"]),
    ]


def main() -> None:
    """Serve as the guard does, with its steps timed."""
    trace, sys.argv[1:] = sys.argv[1], sys.argv[2:]
    from kernelarc_guard import __main__ as guard
    from kernelarc_guard import bench, case
    from kernelarc_guard.pair_ruler import PairRuler

    with open(trace, "a", encoding="utf-8") as file:
        times = Steps(file)
        for name, owner, attributes in steps():
            for attribute in attributes:
                if attribute in vars(owner):  # what is inherited is timed where it is
                    times.timed(owner, attribute, name)
        times.watch_rulers(PairRuler)
        times.watch(bench, "_run_pair", PAIR)
        times.watch(case, "smoke", "smoke")
        times.watch(case, "check_workloads", "correctness")
        guard.main()


def interpreter(folder: Path, trace: Path, python: str) -> str:
    """Return what a guard's client may start as its interpreter to get that guard."""
    told = " ".join(shlex.quote(str(one)) for one in (python, "-m", "benchmarks.pair_steps", trace))
    script = folder / "timed-guard"
    script.write_text(f'#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(ROOT))}\nexec {told} "$@"\n')
    script.chmod(0o755)
    return str(script)


class Trace:
    """The lines that a timed guard wrote, as far as they were not read yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> list[dict[str, Any]]:
        """Return the pairs and stages since the last call."""
        lines = self._path.read_text(encoding="utf-8").splitlines()
        fresh, self._read = lines[self._read :], len(lines)
        return [json.loads(line) for line in fresh]


def sort_of(pair: dict[str, Any]) -> str:
    """Return in words which runners a pair had, or what else it is."""
    if pair["what"] != PAIR:
        return str(pair["what"])
    arms = "three runners" if pair["runners"] == 3 else "two runners"
    return arms + (" and a ruler" if pair["ruler"] else "")


def print_pairs(seconds: dict[str, list[float]]) -> None:
    """Print count, median, least and largest of each sort's seconds."""
    print(f"{'a pair with':<32}{'pairs':>7}{'median':>9}{'min':>9}{'max':>9}")
    for sort, values in sorted(seconds.items()):
        numbers = (statistics.median(values), min(values), max(values))
        print(f"{sort:<32}{len(values):>7}" + "".join(f"{one:>9.3f}" for one in numbers))


def print_steps(pairs: Iterable[dict[str, Any]]) -> None:
    """Print medians of each step's milliseconds, one column per sort of pair."""
    sorts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for pair in pairs:
        sorts[sort_of(pair)].append(pair)
    columns = sorted(sorts.items())
    names = {step for pair in (one for _, some in columns for one in some) for step in pair["ms"]}
    largest = max((some for _, some in columns), key=len)
    print(f"{'ms (calls)':<48}" + "".join(f"{f'{sort}, {len(s)}':>32}" for sort, s in columns))
    for step in sorted(names, key=lambda name: -_median(largest, "ms", name)):
        cells = "".join(f"{_cell(some, step):>32}" for _, some in columns)
        print(f"{step:<48}{cells}")
    whole = (1e3 * statistics.median(one["seconds"] for one in some) for _, some in columns)
    print(f"{'all':<48}" + "".join(f"{one:>32.1f}" for one in whole))


def _cell(pairs: list[dict[str, Any]], step: str) -> str:
    return f"{_median(pairs, 'ms', step):.1f} ({_median(pairs, 'calls', step):.0f})"


def _median(pairs: list[dict[str, Any]], what: str, step: str) -> float:
    return float(statistics.median(pair[what].get(step, 0.0) for pair in pairs))


if __name__ == "__main__":
    main()
