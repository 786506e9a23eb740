"""Planting a delay in the record on a GPU: how long its calls take, and what is added (imports torch)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from kernelarc_guard.bench import Bench, Contestant, run_pair
from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.waiting import Clock, WaitKernel
from kernelarc_guard.faults import Refused
from kernelarc_guard.keeper import Nursery
from kernelarc_guard.planting import Delays, spread, typical_ns

_BLOCKS: Final = 2
"""Of the pair that shows how long the calls take."""
_REMEMBERED: Final = 15


class Planting:
    """What delays are made with on one device."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.clock = Clock(0, 0.0)
        self._launches: deque[int] = deque(maxlen=_REMEMBERED)
        self._awake = False
        self._kernel: WaitKernel | None = None

    def heed(self, launch_ns: int) -> None:
        """Take note of what launching a kernel that waits took in a runner."""
        self._launches.append(launch_ns)

    def refuse_other_calls(self, delays: Sequence[int], awake: bool) -> None:
        """Refuse delays where calls are no longer timed as when these were worked out."""
        if any(delays) and awake != self._awake:
            raise Refused(
                "a call waits for the device now, and its delay was planned for queued ones"
            )

    def plant(
        self,
        bench: Bench,
        nursery: Nursery,
        record: Contestant,
        candidate: Contestant,
        percent: float,
    ) -> Contestant:
        """Return the candidate, which is the record again, with delays of `percent` or more.

        A pair is measured for that, which is no part of what follows. Raises CandidateFault, and
        Refused where the device cannot wait.
        """
        kernel = self._loaded()
        self._look(kernel)
        # Its runner learns what launching takes, and delays nothing.
        plain = replace(candidate, delays=(0,) * len(bench.drawer.indices))
        pair = run_pair(bench, nursery, record, plain, _BLOCKS, lambda: None)
        self._awake = bench.awake
        bench.dying.bury()
        bench.be_quiet(nursery)
        self._look(kernel)  # again: the clocks are now what calls make them
        least = 0.0 if bench.awake else max(float(median(self._launches)), 1.0)
        found = spread(typical_ns(pair), bench.problem.weights(), percent, least)
        bench.note(
            _said(found, percent, least, "the host's clock" if bench.awake else self.clock.name)
        )
        return replace(candidate, planted=found.percent, delays=found.ns)

    def _look(self, kernel: WaitKernel) -> None:
        try:
            self.clock = kernel.look()
        except RuntimeError as error:
            raise Refused(f"delays cannot be planted here: {error}") from None

    def _loaded(self) -> WaitKernel:
        """Return the kernel in the guard's own context; Refused where the driver cannot compile it."""
        if self._kernel is None:
            try:
                self._kernel = WaitKernel()
            except driver.CudaError as error:
                raise Refused(f"delays cannot be planted here: {error}") from None
        return self._kernel


def _said(found: Delays, percent: float, least_ns: float, clock: str) -> str:
    some = sorted(one / 1e3 for one in found.ns if one)
    return (
        f"delay_planted: {found.percent:.3g} % ({percent:.3g} asked for), on {len(some)} of"
        f" {len(found.ns)} workloads, {some[0]:.3g} to {some[-1]:.3g} us by {clock}; at least"
        f" {least_ns / 1e3:.2f} us, what launching the wait takes"
    )
