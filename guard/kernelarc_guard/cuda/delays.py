"""A runner's own side of a planted delay; the guard's code, in a runner of the record alone."""

import time
from collections.abc import Sequence

from kernelarc_guard.cuda.waiting import TRIED_NS, Clock, WaitKernel


class Delayer:
    """Makes calls longer. Opened before anything of a solution runs, and told by how much later."""

    def __init__(self, clock: Clock) -> None:
        """Load the waiting kernel and launch it once: behind a wait for go it could not be loaded."""
        self._clock = clock
        self._kernel = WaitKernel()
        self._kernel.wait(0, clock)
        self._ns: Sequence[int] = ()
        self._launch_ns = 0

    def tell(self, ns: Sequence[int], launch_ns: int) -> None:
        """Take over the delays by workload, and what launching the kernel takes."""
        self._ns, self._launch_ns = ns, launch_ns

    def queue(self, workload: int) -> None:
        """Launch the kernel behind a call's work, to wait for what its launch leaves of the delay.

        Before it was told a delay it waits for `TRIED_NS`.
        """
        ns = self._ns[workload] - self._launch_ns if self._ns else TRIED_NS
        self._kernel.wait(max(ns, 0), self._clock)

    def pass_time(self, workload: int) -> None:
        """Wait busily on the host: a call that is not queued is timed until this process stops."""
        end = time.perf_counter_ns() + (self._ns[workload] if self._ns else 0)
        while time.perf_counter_ns() < end:
            pass
