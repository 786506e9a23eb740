"""Where a verdict's seconds go, protection by protection: a guard's judge in this process, with its steps timed.

Every step's own time is counted, without the steps inside it. `calls themselves` is what the windows measured; all else
is what it costs not to trust a candidate. Used by `time_to_verdict.py`.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from kernelarc_guard import case, contestants
from kernelarc_guard.anchor_arm import AnchorArm
from kernelarc_guard.arm import Arm
from kernelarc_guard.bench import Bench
from kernelarc_guard.buffers import BufferSet
from kernelarc_guard.draws import Drawer
from kernelarc_guard.judge import Judge
from kernelarc_guard.nurseries import Nurseries
from kernelarc_guard.probes import Probes
from kernelarc_guard.protocol import Request, Result
from kernelarc_guard.sandbox import find_sandbox

STEPS: Sequence[tuple[str, object, str]] = (
    ("policy", contestants, "examine"),
    ("build in the sandbox", contestants, "build"),
    ("new nursery for the confirmation", Nurseries, "renew"),
    ("waiting until no nursery imports", Nurseries, "settle"),
    ("fresh runner: fork, confine, load", Bench, "start"),
    ("fresh runner: end, with all it started", Arm, "close"),
    ("fresh inputs for every call", Drawer, "draw"),
    ("fresh inputs for every call", Drawer, "fresh"),
    ("inputs of other distributions, made legal", Bench, "drawn_as"),
    ("fill, poison, canaries", BufferSet, "fill"),
    ("canaries and inputs unchanged", BufferSet, "broken_canary"),
    ("canaries and inputs unchanged", BufferSet, "changed_inputs"),
    ("cold caches", Drawer, "evict"),
    ("hand-over, census, seal", Arm, "_go"),
    ("outputs read from the stopped process", Arm, "outputs"),
    ("float64 oracle", Bench, "answer"),
    ("comparison with the oracle", Bench, "check"),
    ("comparison between the arms", Bench, "agree"),
    ("probes: replay, repeat, late writes", Probes, "run"),
    ("anchor arm", AnchorArm, "warm_up"),
    ("arms in separate lifetimes", case, "run_round"),
)
CALLS = "calls themselves"
REST = "deciding, and everything else"


class StepTimes:
    """Own seconds of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[float] = []
        """Seconds spent in steps inside each of the open ones."""

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count what happens inside, less the steps in it."""
        begin = time.perf_counter()
        self._open.append(0.0)
        try:
            yield
        finally:
            spent, inside = time.perf_counter() - begin, self._open.pop()
            self.seconds[name] += spent - inside
            if self._open:
                self._open[-1] += spent

    def timing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and is counted; a window's own time apart."""

        @wraps(call)
        def counted(*args: Any, **more: Any) -> Any:
            with self.step(name):
                result = call(*args, **more)
            if call is _GO:
                self.seconds[name] -= result / 1e9
                self.seconds[CALLS] += result / 1e9
            return result

        return counted


_GO = Arm._go


@contextmanager
def own_judge() -> Iterator[Judge]:
    """Yield a guard's judge in this process, its first nursery warm."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(find_sandbox(), Path(folder))
        try:
            judge.warm()
            yield judge
        finally:
            judge.close()


def judged(judge: Judge, requests: Sequence[Request]) -> tuple[list[Result], StepTimes]:
    """Judge requests one after the other with every step timed."""
    times, results = StepTimes(), []
    with ExitStack() as patches:
        for name, owner, attribute in STEPS:
            call = times.timing(name, getattr(owner, attribute))
            patches.enter_context(patch.object(owner, attribute, call))
        for request in requests:
            with times.step(REST):
                results.append(judge.judge(request, lambda *_: None))
    return results, times


def print_steps(cases: dict[str, StepTimes]) -> None:
    """Print each step's seconds and share, one column per case."""
    print(f"{'seconds (share)':<44}" + "".join(f"{case:>18}" for case in cases))
    names = list(dict.fromkeys([CALLS, *(name for name, _, _ in STEPS), REST]))
    for name in names:
        cells = ""
        for times in cases.values():
            total = sum(times.seconds.values())
            spent = times.seconds[name]
            cells += f"{f'{spent:.3f} ({spent / total:.0%})':>18}"
        print(f"{name:<44}{cells}")
    totals = "".join(f"{sum(one.seconds.values()):>18.3f}" for one in cases.values())
    print(f"{'all':<44}{totals}")
