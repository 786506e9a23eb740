"""Read from CUPTI how long the calls of Python kernels take; knows nothing of the guard's clock.

    echo '[{"file": "FILE", "axes": {"rows": 4096, "hidden": 4096}}]' | python -m benchmarks.cupti_reader

Prints for each: `spans`, microseconds from the beginning of a call's first kernel to its last's end,
`kernels`, how many those are, and `slowed`, how much longer events around the call are apart while
CUPTI traces than without it. Each call has new inputs and a cold cache, and is queued behind a kernel
that spins, so that the time between its kernels is the device's and not the interpreter's. CUPTI's records
are collected as the guard's profiles collect them, which is all that the two have in common.
"""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from kernelarc_guard.cuda.cupti_recorder import Record, Recorder

CALLS = 40
WARM_UP = 5
EVICTED = 256 << 20
SPIN_CYCLES = 1_500_000
MARK_CYCLES = 100


def main() -> None:
    """Time the kernels that stdin names and print what was read of their calls."""
    asked = json.load(sys.stdin)
    junk = torch.empty(EVICTED // 4, dtype=torch.int32, device="cuda")
    runs = [_load(Path(one["file"])) for one in asked]
    plain = [_call(run, one["axes"], junk) for run, one in zip(runs, asked, strict=True)]
    recorder = Recorder()
    found = []
    for run, one, before in zip(runs, asked, plain, strict=True):
        recorder.start()
        traced = _call(run, one["axes"], junk)
        calls = _calls(recorder.stop())
        if len(calls) != WARM_UP + CALLS:
            raise RuntimeError(f"{len(calls)} calls in the records, not {WARM_UP + CALLS}")
        spans = [(max(r.end for r in call) - min(r.begin for r in call)) / 1e3 for call in calls]
        found.append(
            {
                "spans": spans[WARM_UP:],
                "kernels": len(calls[-1]),
                "slowed": median(traced) - median(before),
            }
        )
    json.dump(found, sys.stdout)


def _call(run: Callable[..., Any], axes: dict[str, int], junk: torch.Tensor) -> list[float]:
    """Make the calls and return what events around each are apart, in microseconds."""
    inputs, output = _tensors(axes)
    spin: Any = torch.cuda._sleep
    event: Any = torch.cuda.Event
    apart = []
    for _ in range(WARM_UP + CALLS):
        before, after = (event(enable_timing=True) for _ in range(2))
        for one in inputs:
            one.normal_()
        junk.fill_(1)
        spin(SPIN_CYCLES)
        before.record()
        run(*inputs, output)
        after.record()
        spin(MARK_CYCLES)
        torch.cuda.synchronize()
        apart.append(1e3 * before.elapsed_time(after))
    return apart[WARM_UP:]


def _load(path: Path) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("timed", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["timed"] = module
    spec.loader.exec_module(module)
    run: Callable[..., Any] = module.run
    return run


def _tensors(axes: dict[str, int]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return the inputs and the output of the two problems that are timed, by their axes."""
    if "rows" in axes:
        shapes, out = (
            [(axes["rows"], axes["hidden"]), (axes["hidden"],)],
            (
                axes["rows"],
                axes["hidden"],
            ),
        )
    else:
        m, k, n = axes["m"], axes["k"], axes["n"]
        shapes, out = [(m, k), (k, n), (m, n)], (m, n)
    return [torch.empty(shape, device="cuda") for shape in shapes], torch.empty(out, device="cuda")


def _calls(records: list[Record]) -> list[list[Record]]:
    """Return the records of what lies between each pair of spinning kernels."""
    calls: list[list[Record]] = []
    inside: list[Record] | None = None
    for record in records:
        if "spin_kernel" not in record.name:
            if inside is not None:
                inside.append(record)
        elif inside is None:
            inside = []
        else:
            calls.append(inside)
            inside = None
    return calls


if __name__ == "__main__":
    main()
