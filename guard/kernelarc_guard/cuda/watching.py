"""A GPU's state after a block: clocks, power, heat, memory, and who else is there."""

import os
from contextlib import AbstractContextManager
from typing import Final

from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.clocks import steady
from kernelarc_guard.cuda.nvml import NoNvml, Nvml
from kernelarc_guard.device_state import DeviceState, OtherProcess
from kernelarc_guard.processes import descendants

_MOST: Final = 20
"""Other processes that are named."""


class DeviceWatch:
    """Asks NVIDIA's management library where there is one, and the driver."""

    def __init__(self, uuid: str) -> None:
        """Watch the device with a UUID; without the library only memory is told."""
        self.missing = ""
        """Why the library cannot be used; empty where it can."""
        self._nvml: Nvml | None = None
        try:
            self._nvml = Nvml(uuid)
        except NoNvml as error:
            self.missing = str(error)

    def steady(self) -> AbstractContextManager[None]:
        """Return what holds the clocks where the guard's environment asks for that."""
        return steady(self._nvml, self.missing)

    def look(self) -> DeviceState:
        """Return the state now; takes about a millisecond."""
        free, _ = driver.free_bytes()
        nvml = self._nvml
        if nvml is None:
            return DeviceState(free_bytes=free)
        try:
            return DeviceState(
                sm_mhz=nvml.sm_mhz(),
                memory_mhz=nvml.memory_mhz(),
                power_w=nvml.power_w(),
                temperature_c=nvml.temperature_c(),
                held_by=nvml.held_by(),
                free_bytes=free,
                others=others(nvml.processes(), os.getpid()),
            )
        except NoNvml as error:
            self.missing = str(error)
            return DeviceState(free_bytes=free)


def others(known: dict[int, int] | None, guard: int) -> list[OtherProcess] | None:
    """Return the processes on the device that the process `guard` did not start.

    None where the table does not even have the guard itself: then its numbers are another
    namespace's.
    """
    if known is None or guard not in known:
        return None
    own = {guard, *descendants(guard)}
    strangers = [OtherProcess(pid=pid, bytes=used) for pid, used in known.items() if pid not in own]
    return strangers[:_MOST]
