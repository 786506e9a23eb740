"""The calls of the correctness stage: what a kernel must survive on one workload (imports torch).

The same objects are called again unchanged, with everything, some rows and some elements rewritten;
objects are made anew over the same memory; results of earlier calls are kept alive; and values come
from other distributions.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from kernelarc_guard.arm import Arm
from kernelarc_guard.bench import Bench, Outputs
from kernelarc_guard.buffers import same_bits
from kernelarc_guard.draws import Draw
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.rewriting import Part

_OTHERS = 60
"""Other distributions that are tried in all, shared out over the workloads."""
_HELD_BYTES = 256 << 20
_CALLS = 32
_PAIRS = 5
_MEMOISED = 0.5
"""A repeat that takes less of a fresh call than this was not computed again."""
_NOTABLE_NS = 20_000
_SLOW_START_NS = 50_000_000
_PARTS: tuple[Part, ...] = ("rows", "elements", "rows")
_INPUTS = 6
"""Inputs that are rewritten in part; problems with more have the rest rewritten in timed pairs."""


class Probes:
    """All calls of one workload on one runner."""

    def __init__(
        self, bench: Bench, arm: Arm, workload: int, earlier: Sequence[Outputs] = ()
    ) -> None:
        """Prepare to probe a workload; `earlier` results of this runner were right."""
        self._bench = bench
        self._arm = arm
        self._workload = workload
        self._right: list[Outputs] = list(earlier)
        self._hold = False
        self._times: list[int] = []

    def run(self) -> int:
        """Make all calls and return the median nanoseconds; raises SolutionFault."""
        drawer, workload = self._bench.drawer, self._workload
        draw = drawer.fresh(workload)
        outputs = self._call(draw)
        size = sum(one.numel() * one.element_size() for one in outputs.values())
        self._hold = size * _CALLS <= _HELD_BYTES
        self._repeat(draw, outputs)
        for name in list(draw.tensors)[:_INPUTS]:
            for part in _PARTS:
                rewritten = drawer.part(workload, draw, part, only=name)
                if rewritten is not None:
                    draw = rewritten
                    self._call(draw)
        for _ in range(2):
            self._call(drawer.fresh(workload), renew=True)
        for other in self._others():
            self._call(other)
        self._bench.tell_lost(workload)
        outputs = self._call(drawer.fresh(workload))
        self._unchanged(outputs)
        return int(median(self._times))

    def _others(self) -> Iterator[Draw]:
        """Yield draws of other distributions; a few workloads try all, many take turns.

        One by one: the answer that showed one to be legal is at hand until the next is drawn.
        """
        variety, workload = self._bench.drawer.variety, self._workload
        choices: list[int | str] = [*variety.siblings[workload], *variety.kinds(workload)]
        count = max(2, _OTHERS // len(self._bench.drawer.indices))
        turn = workload * count % max(1, len(choices))
        chosen = (choices[turn:] + choices[:turn])[:count]
        both = (False, True) if self._bench.drawer.static else (False,)
        drawn = (self._bench.drawn_as(workload, one, new) for one in chosen for new in both)
        return (draw for draw in drawn if draw is not None)

    def _call(self, draw: Draw, renew: bool = False) -> Outputs:
        """Make one call and check it; returns copies of the outputs."""
        arm, workload = self._arm, self._workload
        arm.begin(workload, draw, hold=self._hold, renew=renew, timed=False)
        self._bench.answer(workload, draw)  # it is looked at in any case
        self._times.append(arm.finish())
        outputs = {name: one.clone() for name, one in arm.outputs(workload).items()}
        try:
            self._bench.check(workload, outputs, draw, self._right)
        except SolutionFault as fault:
            if fault.reason in ("wrong_result", "wrong_nonfinite"):
                self._blame_late_write(outputs, fault)
            raise
        # The first ones stay too: what is replayed may be as old as that.
        self._right = [*self._right[:2], *self._right[2:][-2:], outputs]
        return outputs

    def _repeat(self, draw: Draw, before: Outputs) -> None:
        outputs = self._call(draw)
        if self._bench.problem.definition.kernelarc.determinism != "bitwise":
            return
        for name, one in outputs.items():
            if not same_bits(one, before[name]):
                raise SolutionFault(
                    "not_deterministic",
                    f"output {name!r} differs in its bits between two calls on the same inputs",
                    self._workload,
                )

    def _unchanged(self, outputs: Outputs) -> None:
        name = self._arm.changed_since(self._workload, dict(outputs))
        if name is not None:
            raise SolutionFault(
                "late_write",
                f"a result {name!r} changed after its call had ended",
                self._workload,
            )

    def _blame_late_write(self, outputs: Outputs, fault: SolutionFault) -> None:
        """Wake a runner that gave a wrong result: does somebody finish it now?"""
        self._arm.idle(self._workload)
        name = self._arm.changed_since(self._workload, dict(outputs))
        if name is not None:
            raise SolutionFault(
                "late_write",
                f"result {name!r} was still being written after its call had ended; at its end: "
                f"{fault.detail}",
                self._workload,
            ) from None


def observed(bench: Bench, arm: Arm, median_ns: int, workload: int) -> list[str]:
    """Return what is worth noting about a right solution, given its slowest workload."""
    seen = arm.idle(workload)
    if arm.first_ns > max(_SLOW_START_NS, 20 * median_ns):
        seen.append(
            f"slow_start: its first call took {arm.first_ns / 1e6:.0f} ms, "
            f"later ones at most {median_ns / 1e6:.2f} ms"
        )
    memoised = _memoised_repeat(bench, arm, workload)
    return [*seen, memoised] if memoised else seen


def _memoised_repeat(bench: Bench, arm: Arm, workload: int) -> str | None:
    """Return what to note where values that came before are far cheaper than fresh ones.

    Both are written anew before their call, so that they lie in the same caches.
    """
    fresh: list[int] = []
    again: list[int] = []
    for _ in range(_PAIRS):
        draw = bench.drawer.draw(workload)
        for one, times in ((draw, fresh), (bench.drawer.rewritten(draw), again)):
            times.append(arm.call(workload, one))
            bench.check(workload, arm.outputs(workload), one)
    # The smallest of each: a busy machine only ever adds.
    first, second = min(fresh), min(again)
    if first - second < _NOTABLE_NS or second > _MEMOISED * first:
        return None
    return (
        f"memoised_repeat: a call on values that came before takes {second / 1e3:.0f} us where one "
        f"on fresh values takes {first / 1e3:.0f} us"
    )
