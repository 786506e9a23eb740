"""A runner of the record that the guard makes slower, for canaries (imports torch).

Behind each call's work a kernel waits. Its own launch takes time too, which is measured in each
runner, in windows around the smallest kernel with and without it, and is part of the delay.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kernelarc_guard import control
from kernelarc_guard.build import Built
from kernelarc_guard.cuda.arm import CudaArm
from kernelarc_guard.cuda.draws import CudaDrawer
from kernelarc_guard.cuda.turns import Turns
from kernelarc_guard.cuda.waiting import TRIED_NS, Clock
from kernelarc_guard.faults import Refused, SolutionFault
from kernelarc_guard.keeper import Nursery, NurseryLost
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.solution import Solution

_MOST_NS: Final = 10_000
"""No kernel's launch takes longer."""
_TRIES: Final = 3


class DelayedArm(CudaArm):
    """Its calls take longer, by so many nanoseconds on each workload."""

    def __init__(
        self,
        nursery: Nursery,
        solution: Solution,
        built: Built,
        drawer: CudaDrawer,
        schedule: Schedule,
        slot: int,
        note: Callable[[str], None],
        *,
        awake: bool,
        turns: Turns,
        environment: Mapping[str, str],
        delays: Sequence[int],
        clock: Clock,
        heed: Callable[[int], None],
    ) -> None:
        """Fork a runner; `heed` is told what launching the kernel takes. Raises SolutionFault.

        `delays` are by workload; where one is 0 its calls stay as they are.
        """
        self._delays = delays
        self._clock = clock
        self._heed = heed
        self._launch_ns = 0
        super().__init__(
            nursery,
            solution,
            built,
            drawer,
            schedule,
            slot,
            note,
            awake=awake,
            turns=turns,
            environment=environment,
        )

    def get_ready(self) -> None:
        """Learn also what the kernel takes beside its wait; Refused where that is absurd."""
        known = self._ready
        super().get_ready()
        if known:
            return
        for _ in range(_TRIES):
            try:
                waited = self._empty_windows(control.QUEUE | control.WAIT)
            except (SolutionFault, NurseryLost) as fault:
                raise Refused(f"an empty window with a wait failed: {fault}") from None
            longer = waited - self.empty_ns - TRIED_NS
            if longer <= _MOST_NS:
                self._launch_ns = max(longer, 0)
                self._heed(self._launch_ns)
                return
        raise Refused(
            f"launching a kernel that waits takes {longer / 1e3:.1f} us: something else is at work on"
            " the device"
        )

    def _more_flags(self, workload: int) -> int:
        return control.WAIT if self._delays[workload] else 0

    def _device_setup(self) -> dict[str, Any]:
        waits_by = [self._clock.step_ns, self._clock.cycles_per_ns]
        return super()._device_setup() | {"waits_by": waits_by}

    def _to_load(self) -> dict[str, Any]:
        told = {"delays": list(self._delays), "launch_ns": self._launch_ns}
        return super()._to_load() | told
