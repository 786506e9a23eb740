"""Showing what the guard is at: one line that changes on a terminal, one line a step elsewhere."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernelarc_guard.lease import lock_dir
from kernelarc_guard.protocol import DEVICE_HELD, Progress
from kernelarc_mcp.cli.console import err
from kernelarc_mcp.cli.device_locks import others
from kernelarc_mcp.host.guard_client import WAITING

_PAIR = re.compile(r", pair \d+ of \d+$")


@contextmanager
def shown_stages() -> Iterator[Callable[[Progress], None]]:
    """Yield what shows the guard's signs of life on standard error."""
    if err.is_terminal:
        with err.status("starting the guard") as status:
            yield lambda progress: status.update(f"{progress.stage}: {told(progress)}")
        return
    last = ""

    def tell(progress: Progress) -> None:
        nonlocal last
        step = step_of(progress)
        if step != last:
            last = step
            err.print(told(progress) if step == WAITING else step, markup=False)

    yield tell


def told(progress: Progress) -> str:
    """Return a sign of life's message; of one that waits for the device, with who else holds it."""
    if progress.message != WAITING:
        return progress.message
    try:
        held = [str(one) for one in others(lock_dir())]
    except OSError:
        held = []
    return "; ".join([WAITING, *held])


def step_of(progress: Progress) -> str:
    """Return which step a sign of life belongs to: a stage, a nursery, or the wait for the device."""
    message = progress.message
    if message in (WAITING, DEVICE_HELD):
        return message
    if message.startswith("calibrating"):
        return _PAIR.sub("", message)
    return progress.stage
