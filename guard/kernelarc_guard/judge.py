"""Judging requests one after the other: what lives as long as the guard's process (imports torch).

It keeps nothing between requests but open devices with their nurseries, and the build cache.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from kernelarc_guard import asking
from kernelarc_guard.backend import Backend, CpuBackend, open_backend
from kernelarc_guard.case import Case, Device
from kernelarc_guard.device_properties import properties_of
from kernelarc_guard.faults import Refused
from kernelarc_guard.inputs import InputError
from kernelarc_guard.inquiries import Counted, Inquiry, Profiled
from kernelarc_guard.nurseries import Nurseries
from kernelarc_guard.oracle import OracleError
from kernelarc_guard.preparing import Building, Preparing
from kernelarc_guard.protocol import Request, Result
from kernelarc_guard.report import Outcome, Report, Tell
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.trials import Trials


class Judge:
    """Judges requests one after the other on one device."""

    def __init__(
        self,
        sandbox: Sandbox,
        folder: Path,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        preparing: Preparing | None = None,
    ) -> None:
        """Start the first nursery; all files are in `folder`, `now` dates calibrations.

        `preparing` builds ahead.
        """
        self._sandbox = sandbox
        self._protection = sandbox.describe()
        self._folder = folder
        self._nurseries = Nurseries(sandbox, folder)
        self._preparing = preparing or Preparing()
        self._open: dict[str, Device] = {}
        self._add("cpu", CpuBackend(), self._nurseries, Trials())
        self._now = now

    def judge(self, request: Request, tell: Tell) -> Result:
        """Answer one request; raises Refused where it cannot be judged."""
        begin, cache = time.monotonic(), Path(request.cache_dir)
        device = self._device(request.device)
        report = Report(request.id, request.op, tell)
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise Refused(f"cache_dir: cannot be created: {error}") from None
        try:
            Case(request, report, device, cache, self._sandbox, self._now).run()
        except Outcome as outcome:
            report.settle(outcome)
        except (InputError, OracleError) as error:
            raise Refused(f"the problem cannot be graded: {error}") from None
        finally:
            device.nurseries.clean()
            device.backend.tidy()
        protection = self._protection | device.nurseries.protection
        return report.result(protection, time.monotonic() - begin)

    def inquire(self, inquiry: Inquiry, tell: Tell) -> Counted | Profiled:
        """Answer a question that decides nothing; raises Refused where it cannot be answered."""
        backend = self._device(inquiry.device).backend
        return asking.answer(inquiry, backend, self._sandbox, self._folder, tell)

    def warm(self) -> None:
        """Prepare the next confirmation's nursery; nothing is being timed now."""
        for device in self._open.values():
            device.nurseries.warm_spare()

    def close(self) -> None:
        """End all processes."""
        for device in self._open.values():
            device.nurseries.close()

    def _device(self, name: str) -> Device:
        """Return a device that was opened; raises Refused where there is no such one."""
        known = self._open.get(name)
        if known is None:
            folder = self._folder / name.replace(":", "-")
            backend = open_backend(name, self._sandbox, folder)
            folder.mkdir(mode=0o700)
            nurseries = Nurseries(self._sandbox, folder, backend.nodes, backend.environment)
            trials = Trials(backend.place, backend.memory_bytes)
            known = self._add(name, backend, nurseries, trials)
        return known

    def _add(self, name: str, backend: Backend, nurseries: Nurseries, trials: Trials) -> Device:
        device = Device(backend, nurseries, trials, self._preparing)
        self._open[name] = device
        building = Building(
            backend.architecture, backend.builds_beside, properties_of(backend.place)
        )
        self._preparing.know(name, building, self._sandbox)
        return device
