"""Work for GPUs and their host that a measurement beside it could feel; switched on and off by its stdin.

    python -m benchmarks.gpu_load --gpus 1 2 --compilers 4 --copiers 2

`busy` and `idle` on stdin, a line each; to both it answers with one line of JSON, and to `idle` with what was done
meanwhile. Per GPU: large BF16 products, and copies over PCIe in both directions. On the host: copies in memory, and
compilers. Ends with its stdin.
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final

_SIDE: Final = 8192
_COPY_BYTES: Final = 256 << 20
_HOST_BYTES: Final = 64 << 20
_BETWEEN: Final = 0.05
_LOADING: Final = -1.0
_READY_SECONDS: Final = 90.0
_SOURCE: Final = """
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>
int main() {
  std::map<std::string, std::vector<int>> all;
  for (auto& [key, of] : all) std::sort(of.begin(), of.end());
  return std::regex_match("a", std::regex("a|b")) ? 0 : 1;
}
"""


class Load:
    """Processes that work while they are told to."""

    def __init__(self, gpus: list[int], compilers: int, copiers: int) -> None:
        """Start them, idle; return when all are ready. SystemExit where one is not."""
        context = multiprocessing.get_context("spawn")
        self._busy = context.Event()
        self._done: dict[str, Any] = {}
        self._processes = []
        plan: list[tuple[str, Callable[..., None], tuple[Any, ...]]] = []
        plan += [(f"gpu {number}: products", _products, (number,)) for number in gpus]
        plan += [(f"gpu {number}: PCIe bytes", _over_pcie, (number,)) for number in gpus]
        plan += [(f"host {number}: copied bytes", _in_memory, ()) for number in range(copiers)]
        plan += [(f"host {number}: compiled", _compilations, ()) for number in range(compilers)]
        for name, target, arguments in plan:
            self._done[name] = count = context.Value("d", _LOADING)
            one = context.Process(target=target, args=(self._busy, count, *arguments), daemon=True)
            one.start()
            self._processes.append(one)
        until = time.monotonic() + _READY_SECONDS
        while any(value == _LOADING for value in self.done().values()):
            if time.monotonic() > until:
                raise SystemExit(f"not ready within {_READY_SECONDS:g} s: {self.done()}")
            time.sleep(_BETWEEN)

    def switch(self, busy: bool) -> None:
        """Let all work, or let them rest when they have done what they are at."""
        self._busy.set() if busy else self._busy.clear()

    def done(self) -> dict[str, float]:
        """Return what each has done so far; SystemExit where one has died."""
        for one, name in zip(self._processes, self._done, strict=True):
            if not one.is_alive():
                raise SystemExit(f"{name}: ended with status {one.exitcode}")
        return {name: count.value for name, count in self._done.items()}


def _products(busy: Event, count: "Synchronized[float]", number: int) -> None:
    import torch

    torch.cuda.set_device(number)
    a, b = (torch.randn(_SIDE, _SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    count.value = 0.0
    while True:
        _rest(busy)
        for _ in range(8):
            torch.mm(a, b)
        torch.cuda.synchronize()
        count.value += 8


def _over_pcie(busy: Event, count: "Synchronized[float]", number: int) -> None:
    import torch

    torch.cuda.set_device(number)
    host = [torch.empty(_COPY_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    here = [torch.empty(_COPY_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
    there, back = (torch.cuda.Stream() for _ in range(2))  # type: ignore[no-untyped-call]
    count.value = 0.0
    while True:
        _rest(busy)
        with torch.cuda.stream(there):
            here[0].copy_(host[0], non_blocking=True)
        with torch.cuda.stream(back):
            host[1].copy_(here[1], non_blocking=True)
        torch.cuda.synchronize()
        count.value += 2 * _COPY_BYTES


def _in_memory(busy: Event, count: "Synchronized[float]") -> None:
    import numpy as np

    source = np.ones(_HOST_BYTES, np.uint8)
    target = np.empty_like(source)
    count.value = 0.0
    while True:
        _rest(busy)
        np.copyto(target, source)
        count.value += 2 * _HOST_BYTES


def _compilations(busy: Event, count: "Synchronized[float]") -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "a.cpp"
        source.write_text(_SOURCE)
        count.value = 0.0
        while True:
            _rest(busy)
            subprocess.run(["g++", "-O2", "-c", str(source), "-o", f"{folder}/a.o"], check=True)
            count.value += 1


def _rest(busy: Event) -> None:
    """Wait until there is work."""
    while not busy.is_set():
        busy.wait(1.0)


def main() -> None:
    """Obey until stdin closes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--gpus", type=int, nargs="*", default=[])
    parser.add_argument("--compilers", type=int, default=2)
    parser.add_argument("--copiers", type=int, default=2)
    asked = parser.parse_args()
    load = Load(asked.gpus, asked.compilers, asked.copiers)
    before, since = load.done(), time.monotonic()
    for line in sys.stdin:
        if line.strip() not in ("busy", "idle"):
            raise SystemExit(f"{line.strip()!r}: expected busy or idle")
        load.switch(line.strip() == "busy")
        time.sleep(_BETWEEN)
        now, at = load.done(), time.monotonic()
        rates = {name: (now[name] - before[name]) / (at - since) for name in now}
        print(json.dumps({"seconds": round(at - since, 2), "a second": rates}), flush=True)
        before, since = now, at


if __name__ == "__main__":
    main()
