"""Try the windows of a GPU before building on them: experiments E2 to E7 on one NVIDIA device.

    python -m benchmarks.cuda_windows --out FOLDER

Prints a table per experiment and writes every number to FOLDER/h200_windows.json. Needs nvcc, torch
and about three minutes; changes no setting of the device.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cuda_windows import experiments as tried
from benchmarks.cuda_windows.guardside import Device, Late, Nursery
from benchmarks.cuda_windows.launch import compile_kernels
from benchmarks.cuda_windows.stats import show
from kernelarc_guard.cuda import driver
from kernelarc_guard.frames import FrameError


def main() -> None:
    """Run the experiments one after the other; one that fails stops no other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--calls", type=int, default=144, help="of each arm in E2")
    parser.add_argument("--pairs", type=int, default=10, help="of runners in E7")
    parser.add_argument("--only", default="", help="names, with commas between")
    options = parser.parse_args()
    raw: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        device = Device(compile_kernels(Path(folder)), 64 << 20)
        nursery = Nursery()
        raw["device"] = driver.device_name(0)
        raw["torch"] = nursery.torch
        steps: dict[str, Callable[[], tried.Rows]] = {
            "E2": lambda: tried.same_kernel_twice(device, nursery, raw, options.calls),
            "E3": lambda: tried.resident_kernel(device, nursery, raw, 20),
            "E3-early": lambda: tried.early_start(device, nursery, raw, 60),
            "E4": lambda: tried.freezes(device, nursery, raw, 1000),
            "E5": lambda: tried.persisting_lines(device, nursery, raw, 40),
            "E5-read-only": lambda: tried.read_only(device, nursery, raw),
            "E5-privileges": _privileges,
            "E6": lambda: tried.triggers(device, nursery, raw, 60),
            "E7": lambda: tried.carriers(device, nursery, raw, options.pairs),
        }
        for name, step in steps.items():
            if options.only and name not in options.only.split(","):
                continue
            begin = time.monotonic()
            try:
                rows = step()
            except (driver.CudaError, Late, OSError, FrameError, KeyError) as error:
                traceback.print_exc()
                for arm in list(device.arms):
                    arm.close()
                rows = [{"failed": f"{type(error).__name__}: {error}"}]
            raw[f"{name} table"] = rows
            show(f"{name} ({time.monotonic() - begin:.1f} s)", rows)
            (options.out / "h200_windows.json").write_text(json.dumps(raw))
        nursery.close()


def _privileges() -> tried.Rows:
    rows: tried.Rows = []
    program = [sys.executable, "-m", "benchmarks.cuda_windows.privileges"]
    for name, before in {
        "user namespace, root inside": ["unshare", "--user", "--map-root-user"],
        "ordinary user": ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"],
    }.items():
        done = subprocess.run([*before, *program], capture_output=True, text=True)
        rows.append({"who": name, "outcome": (done.stdout + done.stderr).strip()[-300:]})
    return rows


if __name__ == "__main__":
    main()
