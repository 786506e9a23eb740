"""A kernel that does nothing but wait, in PTX that the driver compiles: no compiler is needed.

It waits by the device's own timer (`%globaltimer`, nanoseconds whatever the clocks do) where that has
steps fine enough, else by cycles of its multiprocessor. Standard library only.
"""

import ctypes
import math
from ctypes import c_uint64, c_void_p
from dataclasses import dataclass
from typing import Final

from kernelarc_guard.cuda import driver

TRIED_NS: Final = 2000
"""The wait of windows that show what its launch takes: with none at all its code would come too late."""
_FINE_NS: Final = 100
"""Steps of the timer up to this are fine enough for delays of half a microsecond."""
_LOOK_NS: Final = 1_000_000
_LOOK_CYCLES: Final = 20_000_000
"""A look at both clocks ends then where the timer stands still."""

_PTX: Final = b"""\
.version 6.3
.target sm_75
.address_size 64

.visible .entry kernelarc_wait(.param .u64 ns, .param .u64 cycles, .param .u64 out)
{
    .reg .pred %waits;
    .reg .u64 %begun, %began, %ns, %cycles, %out, %now, %passed, %turned;
    mov.u64 %begun, %globaltimer;
    mov.u64 %began, %clock64;
    ld.param.u64 %ns, [ns];
    ld.param.u64 %cycles, [cycles];
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
by_timer:
    mov.u64 %now, %globaltimer;
    sub.u64 %passed, %now, %begun;
    setp.lt.u64 %waits, %passed, %ns;
    @%waits bra by_timer;
by_cycles:
    mov.u64 %now, %clock64;
    sub.u64 %turned, %now, %began;
    setp.lt.u64 %waits, %turned, %cycles;
    @%waits bra by_cycles;
    mov.u64 %now, %globaltimer;
    sub.u64 %passed, %now, %begun;
    st.global.u64 [%out], %passed;
    st.global.u64 [%out+8], %turned;
    ret;
}

.visible .entry kernelarc_clocks(.param .u64 ns, .param .u64 cycles, .param .u64 out)
{
    .reg .pred %moved, %more;
    .reg .u64 %begun, %began, %ns, %cycles, %out, %now, %last, %steps, %passed, %turned;
    ld.param.u64 %ns, [ns];
    ld.param.u64 %cycles, [cycles];
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    mov.u64 %steps, 0;
    mov.u64 %begun, %globaltimer;
    mov.u64 %began, %clock64;
    mov.u64 %last, %begun;
again:
    mov.u64 %now, %globaltimer;
    mov.u64 %turned, %clock64;
    sub.u64 %turned, %turned, %began;
    setp.ne.u64 %moved, %now, %last;
    mov.u64 %last, %now;
    @%moved add.u64 %steps, %steps, 1;
    sub.u64 %passed, %now, %begun;
    setp.lt.u64 %more, %turned, %cycles;
    setp.lt.and.u64 %more, %passed, %ns, %more;
    @%more bra again;
    st.global.u64 [%out], %passed;
    st.global.u64 [%out+8], %turned;
    st.global.u64 [%out+16], %steps;
    ret;
}
"""


@dataclass(frozen=True)
class Clock:
    """What the kernel counts."""

    step_ns: int
    """Mean step of the device's timer, as far as it could be followed."""
    cycles_per_ns: float
    """Of a multiprocessor, just now."""

    @property
    def by_timer(self) -> bool:
        """Say whether the timer is fine enough; else cycles are counted."""
        return self.step_ns <= _FINE_NS

    @property
    def name(self) -> str:
        """Return which it is, in words."""
        if self.by_timer:
            return f"the device's timer, in steps of {self.step_ns} ns"
        return (
            f"cycles, {self.cycles_per_ns:.3f} a nanosecond: the device's timer has steps of"
            f" {self.step_ns} ns"
        )


class WaitKernel:
    """The kernel in the current context; raises CudaError where the driver cannot compile it."""

    def __init__(self) -> None:
        """Compile and load it."""
        module, out = c_void_p(), c_uint64()
        driver.call("cuModuleLoadData", ctypes.byref(module), _PTX)
        self._wait, self._clocks = (
            _function(module, name) for name in (b"kernelarc_wait", b"kernelarc_clocks")
        )
        driver.call("cuMemAlloc_v2", ctypes.byref(out), 3 * 8)
        self._out = out.value
        self._arguments = [c_uint64(), c_uint64(), out]
        self._pointers = (c_void_p * 3)(*map(ctypes.addressof, self._arguments))

    def wait(self, ns: int, clock: Clock) -> None:
        """Launch it on the default stream, to wait for so long; 0: to end at once."""
        cycles = 0 if clock.by_timer else round(ns * clock.cycles_per_ns)
        self._launch(self._wait, ns if clock.by_timer else 0, cycles)

    def waited(self) -> tuple[int, int]:
        """Return the nanoseconds of the timer, and the cycles, of the last wait, once it is over."""
        passed, turned, _ = self._read()
        return passed, turned

    def look(self) -> Clock:
        """Look at both clocks for a millisecond; RuntimeError where the timer stands still."""
        for _ in range(2):  # the first one also wakes the device
            self._launch(self._clocks, _LOOK_NS, _LOOK_CYCLES)
            passed, turned, steps = self._read()
        if not steps:
            raise RuntimeError(f"the device's timer stood still for {turned} cycles")
        return Clock(math.ceil(passed / steps), turned / passed)

    def _launch(self, function: c_void_p, ns: int, cycles: int) -> None:
        self._arguments[0].value, self._arguments[1].value = ns, cycles
        # Arguments are copied by the launch.
        grid = block = (1, 1, 1)
        driver.call("cuLaunchKernel", function, *grid, *block, 0, None, self._pointers, None)

    def _read(self) -> tuple[int, int, int]:
        told = (c_uint64 * 3)()
        driver.call("cuCtxSynchronize")
        driver.call("cuMemcpyDtoHAsync_v2", told, self._out, ctypes.sizeof(told), None)
        driver.call("cuCtxSynchronize")
        return told[0], told[1], told[2]


def _function(module: c_void_p, name: bytes) -> c_void_p:
    found = c_void_p()
    driver.call("cuModuleGetFunction", ctypes.byref(found), module, name)
    return found
