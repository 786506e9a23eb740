"""A runner of the guard's own beside some pairs: what do windows hold beside the calls? Imports torch.

Where windows hold more than a call, on a GPU the change of contexts, that is the same only under the
same conditions: with as many contexts open, as often in turn, after as much other work. So a trusted
runner calls the smallest kernel there is, in windows of its own between those of the pair.
"""

from typing import TYPE_CHECKING, Final

from kernelarc_guard.arm import Arm
from kernelarc_guard.faults import CandidateFault, Refused, SolutionFault
from kernelarc_guard.nurseries import Nursery

if TYPE_CHECKING:
    from kernelarc_guard.bench import Bench
    from kernelarc_guard.live_pair import LivePair

_CALLS: Final = 8


class PairRuler:
    """That runner in one pair, or nothing at all: not every pair needs one."""

    def __init__(self, bench: "Bench") -> None:
        """Decide whether this pair has one."""
        self._bench = bench
        self._arm: Arm | None = None
        wanted = not (bench.awake or bench.drawer.thrifty or bench.drawer.scalar_outputs)
        self.runners = int(wanted and bench.backend.wants_ruler())
        """How many runners it takes: one or none."""

    def start(self, nursery: Nursery) -> None:
        """Fork it; without one this and every other method does nothing."""
        if self.runners:
            try:
                self._arm = self._bench.backend.start_ruler(nursery, self._bench)
            except SolutionFault as fault:
                raise _failed(fault) from None

    def wait_mapped(self) -> None:
        """Wait until it has its buffers."""
        if self._arm is not None:
            self._arm.wait_mapped()

    def get_ready(self) -> None:
        """Wait until it has loaded its kernel."""
        if self._arm is not None:
            try:
                self._arm.wait_loaded()
            except SolutionFault as fault:
                raise _failed(fault) from None

    def measure(self, pair: "LivePair") -> None:
        """Call it between calls of the pair, which are checked and not timed.

        Where something else holds up the ruler's own windows, that is no fault of the ruler: the
        pair goes on, what is taken off stays as it was, and the arms' windows show who it is.
        """
        if self._arm is None:
            return
        bench = self._bench
        sizes = {w: bench.drawer.elements(w) for w in bench.drawer.indices}
        small = min(sizes, key=lambda w: sizes[w])
        draw = bench.drawer.draw(small)
        taken: list[int] = []
        try:
            self._arm.call(0, draw)  # the first one loads the kernel
            for _ in range(_CALLS):
                pair.call(small, checked=True)
                taken.append(self._arm.call(0, draw) - self._arm.empty_ns)
        except CandidateFault:
            raise  # of the pair's own call
        except SolutionFault as fault:
            bench.note(f"ruler_disturbed: {fault.detail}")
            taken.clear()
        pair.check()
        if taken:
            bench.backend.heed_ruler(taken)

    def close(self) -> None:
        """Kill the runner."""
        if self._arm is not None:
            self._bench.part_with([self._arm])


def _failed(fault: SolutionFault) -> Refused:
    return Refused(f"the guard's own runner failed ({fault.reason}): {fault.detail}")
