"""A runner's own side of a GPU: its context, the mapped buffers, and calls behind a go (imports torch)."""

import os
from typing import Any

import torch

from kernelarc_guard import control
from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.delays import Delayer
from kernelarc_guard.cuda.driver import Allocation
from kernelarc_guard.cuda.flags import Flags
from kernelarc_guard.cuda.tensors import as_bytes
from kernelarc_guard.cuda.waiting import Clock

_OWN = 0
"""The one device that a runner sees."""


def open_device() -> None:
    """Open the context, and torch's own side of it."""
    driver.open_context(_OWN)
    torch.zeros(1, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()


class CudaSide:
    """What surrounds the calls of one runner. Opened before anything of a solution runs."""

    def __init__(
        self,
        flags_fd: int,
        fds: list[int],
        sets: list[dict[str, Any]],
        waits_by: list[Any] | None = None,
    ) -> None:
        """Open the context, map the flags and all buffers; closes the descriptors.

        `waits_by` is the clock of a runner that is made slower.
        """
        driver.open_context(_OWN)
        # Also torch's own start, while everything can still be opened.
        self._word = torch.zeros(1, dtype=torch.int32, device="cuda")
        self._flags = Flags(flags_fd)
        os.close(flags_fd)
        left = iter(fds)
        self._memory: list[Allocation] = []
        self.sets = [self._map(left, described) for described in sets]
        self.touch()  # its kernel is loaded here: behind a wait that would never end
        self._delayer = Delayer(Clock(*waits_by)) if waits_by else None
        self.wait()
        self._outputs = [[one[name] for name in d["outputs"]] for one, d in
                         zip(self.sets, sets, strict=True)]  # fmt: skip

    def _map(self, fds: Any, described: dict[str, Any]) -> dict[str, torch.Tensor]:
        tensors = {}
        for part in ("inputs", "outputs"):
            for name, slot in described[part].items():
                fd = next(fds)
                memory = Allocation.from_fd(fd, slot["bytes"], _OWN, part == "outputs")
                os.close(fd)
                self._memory.append(memory)
                dtype = getattr(torch, slot["dtype"])
                count = 1
                for size, stride in zip(slot["shape"], slot["strides"], strict=True):
                    count = 0 if size == 0 or count == 0 else count + (size - 1) * stride
                raw = as_bytes(memory, _OWN)
                data = raw[slot["offset"] : slot["offset"] + count * dtype.itemsize]
                tensors[name] = data.view(dtype).as_strided(slot["shape"], slot["strides"])
        return tensors

    def before(self, order: control.Order) -> None:
        """Let everything launched from now on wait for the guard's go, where the call is queued."""
        if order.flags & control.QUEUE:
            driver.call(
                "cuStreamWaitValue32_v2", None, self._flags.go_at, order.call, driver.WAIT_GEQ
            )

    def take(self, told: dict[str, Any]) -> None:
        """Take over what the guard says before anything of a solution is loaded."""
        if self._delayer is not None:
            self._delayer.tell(told["delays"], told["launch_ns"])

    def after(self, order: control.Order, returned: Any = None) -> None:
        """End a call: hand over what it returned, then say done or wait for the device."""
        longer = self._delayer if order.flags & control.WAIT else None
        for target, value in zip(self._outputs[order.workload], _values(returned), strict=False):
            if _fits(value, target):
                target.copy_(value, non_blocking=True)
        if order.flags & control.QUEUE:
            if longer is not None:
                longer.queue(order.workload)
            driver.call("cuStreamWriteValue32_v2", None, self._flags.done_at, order.call, 0)
        else:
            self.wait()
            if longer is not None:
                longer.pass_time(order.workload)

    def touch(self) -> None:
        """Launch the smallest kernel."""
        self._word.fill_(1)

    def wait(self) -> None:
        """Wait for the device; raises what went wrong on it."""
        torch.cuda.synchronize()


def _values(returned: Any) -> list[Any]:
    """Return the tensors among what a solution returned, as outputs that are tensors."""
    if returned is None:
        return []
    if isinstance(returned, dict):
        values = list(returned.values())
    elif isinstance(returned, tuple | list):
        values = list(returned)
    else:
        values = [returned]
    return [one for one in values if not isinstance(one, bool | int | float)]


def _fits(value: Any, target: torch.Tensor) -> bool:
    return (
        type(value) is torch.Tensor
        and value.is_cuda
        and value.layout is torch.strided
        and value.shape == target.shape
        and value.dtype is target.dtype
    )
