"""A fleet of one host for measurements: its GPUs behind real guards, or CPU devices with scripted ones."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests")]

from fleets import Fleet, fleet_in, scripted_guard, wait_until  # noqa: E402

from kernelarc_mcp.host.ledger import Ledger  # noqa: E402

__all__ = ["Counted", "Fleet", "Machine", "fleet_in", "scripted_guard", "wait_until"]
START_SECONDS: Final = 120.0
_PAUSE: Final = 0.4
"""Seconds that a scripted guard takes for an answer."""
_MONITOR: Final = "RAY_memory_monitor_refresh_ms"


class Machine:
    """The devices of this host."""

    def __init__(self, cpu_devices: int = 0, builders: int = 0) -> None:
        """Use so many CPU devices with scripted guards; 0: the host's GPUs, with so many build slots."""
        self._builders = 0 if cpu_devices else builders
        self.on_cpu = cpu_devices > 0
        self.devices = cpu_devices or len(_gpus())

    @contextmanager
    def fleet(self, folder: Path, count: int) -> Iterator[Fleet]:
        """Yield a fleet of the first `count` devices, all offered; AssertionError where they are not."""
        # Some hosts show more memory only as it is used, so that a monitor would kill for nothing.
        os.environ.setdefault(_MONITOR, "0")
        folder.mkdir(parents=True, exist_ok=True)
        with fleet_in(folder) as fleet:
            if self.on_cpu:
                for number in range(count):
                    name = f"d{number}"
                    guard = scripted_guard(folder, name, pause=_PAUSE)
                    fleet.add(name, "--device", "cpu", "--guard-python", guard, head=number == 0)
                    fleet.wait_offered(name)
            else:
                chosen = [
                    word for number in range(count) for word in ("--device", f"cuda:{number}")
                ]
                chosen += ["--builders", str(self._builders)] * (self._builders > 0)
                host = fleet.add("host", *chosen, "--guard-python", sys.executable, head=True)

                def offered() -> bool:
                    assert host.process.poll() is None, host.log.read_text()[-2000:]
                    return host.said("offered: ") == count + self._builders

                wait_until(f"{count} GPUs are offered", offered, START_SECONDS)
            yield fleet

    def guard(self, folder: Path, name: str) -> str:
        """Return what starts a guard without a fleet."""
        return scripted_guard(folder, name, pause=_PAUSE) if self.on_cpu else sys.executable

    def device(self, number: int) -> str:
        """Return how a guard of this host calls a device."""
        return "cpu" if self.on_cpu else f"cuda:{number}"


class Counted:
    """How many rows of each kind, and verdicts of each sort, a campaign has; reads only what is new."""

    def __init__(self, folder: Path) -> None:
        """Read nothing yet."""
        self._folder = folder
        self._last = 0
        self._kinds: Counter[str] = Counter()

    def look(self) -> Counter[str]:
        """Return the counts now."""
        ledger = Ledger.open_read_only(self._folder)
        try:
            for row in ledger.rows_after(self._last):
                self._kinds[row.kind] += 1
                if row.kind == "settled":
                    self._kinds[json.loads(row.body)["verdict"]] += 1
                self._last = row.seq
        finally:
            ledger.close()
        return self._kinds


def _gpus() -> list[str]:
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except OSError:
        return []
    return [line for line in done.stdout.splitlines() if line.startswith("GPU ")]
