"""Answering questions that decide nothing, on the device that they ask about (imports torch)."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from kernelarc_guard.backend import Backend
from kernelarc_guard.counting import count_work
from kernelarc_guard.device_names import device_name
from kernelarc_guard.faults import Refused
from kernelarc_guard.inquiries import Count, Counted, Inquiry, Profiled
from kernelarc_guard.lease import DeviceLease
from kernelarc_guard.measuring_roofs import measure_roofs
from kernelarc_guard.profiling import Profiler
from kernelarc_guard.protocol import DEVICE_HELD, BaseRequest, Progress
from kernelarc_guard.reasons import Stage
from kernelarc_guard.report import Tell
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.supervised import COUNTED


def answer(
    inquiry: Inquiry, backend: Backend, sandbox: Sandbox, folder: Path, tell: Tell
) -> Counted | Profiled:
    """Answer one question, holding the device; raises Refused, with its lease, where that cannot be.

    `folder` is for files while it is answered.
    """
    begin = time.monotonic()
    progress = _Progress(inquiry, tell)
    progress("policy", "waiting for the device")
    with DeviceLease(inquiry.device, backend.lock) as lease:
        progress("policy", DEVICE_HELD)
        try:
            found = _found(inquiry, backend, sandbox, folder, progress)
        except Refused as refused:
            lease.ends()
            refused.lease = lease.describe()
            raise
        lease.ends()
    described = {"lease": lease.describe()}
    if isinstance(found, Profiled):
        return found.model_copy(update=described | {"seconds": time.monotonic() - begin})
    return found.model_copy(update=described)


def _found(
    inquiry: Inquiry,
    backend: Backend,
    sandbox: Sandbox,
    folder: Path,
    progress: Callable[[Stage, str], None],
) -> Counted | Profiled:
    if isinstance(inquiry, Count):
        return _counted(inquiry, backend)
    profile, files = Profiler(inquiry, backend, sandbox, folder, progress).run()
    protection = sandbox.describe() | COUNTED
    return Profiled(id=inquiry.id, profile=profile, files=files, protection=protection)


def _counted(inquiry: Count, backend: Backend) -> Counted:
    threads = inquiry.problem.definition.kernelarc.threads
    return Counted(
        id=inquiry.id,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        work=count_work(inquiry.problem, backend.place),
        roofs=measure_roofs(backend.place, device_name(backend.place), threads),
    )


class _Progress:
    """Sends signs of life; `done` moves a little each time."""

    def __init__(self, request: BaseRequest, tell: Tell) -> None:
        self._id = request.id
        self._tell = tell
        self._done = 0.0

    def __call__(self, stage: Stage, message: str) -> None:
        self._done += 1.0
        self._tell(
            Progress(id=self._id, stage=stage, done=self._done, of=self._done + 4, message=message)
        )
