"""How fast solutions run back to back in a process of their own, with nothing between their calls.

    python -m benchmarks.sustained --problem kernels/gemm_bf16 --workloads workload.gpu.jsonl SOLUTION...

Prints one JSON line for each: microseconds per call over the whole loop, and on a GPU the clock and
the power that nvidia-smi saw in it. A solution that fails ends the process: its line is missing.
"""

import argparse
import importlib.util
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.nvcc import find_nvcc, nvcc_flags
from kernelarc_guard.dltensor import as_dltensor, load_function
from kernelarc_guard.dtypes import torch_dtype
from kernelarc_guard.inputs import make_inputs
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.solution import CompileOptions, Solution, read_solution
from kernelarc_guard.toolchain import find_toolchain
from kernelarc_guard.workload import Workload

Call = Callable[[], object]
_WARM_SECONDS = 0.2


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("solutions", nargs="+", type=Path)
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--workloads", default="workload.jsonl")
    parser.add_argument("--index", type=int, default=0, help="of the workload")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each loop")
    options = parser.parse_args()
    problem = read_problem(options.problem, options.workloads)
    workload = problem.workloads[options.index]
    for path in options.solutions:
        solution = read_solution(path, problem.definition)
        with tempfile.TemporaryDirectory() as place:
            call = prepare(problem, workload, solution, options.device, Path(place))
            found = loop(call, options.device, options.seconds)
        print(json.dumps({"solution": path.name, **found}), flush=True)


def prepare(
    problem: Problem, workload: Workload, solution: Solution, device: str, place: Path
) -> Call:
    """Load a solution, building it in `place` where it is native, and bind its arguments."""
    for source in solution.sources:
        target = place / source.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.content, encoding="utf-8")
    inputs = make_inputs(problem.definition, workload, 1, folder=problem.folder, device=device)
    arguments: list[Any] = list(inputs.values())
    if solution.spec.destination_passing_style:
        resolved = problem.definition.resolve(workload.axes)
        arguments += [
            torch.empty(
                problem.definition.output_shape(name, resolved) or (),
                dtype=torch_dtype(spec.dtype),
                device=device,
            )
            for name, spec in problem.definition.outputs.items()
        ]
    if solution.is_native:
        function = load_function(_compiled(solution, device, place), solution.entry_function)
        arguments = [as_dltensor(a) if isinstance(a, torch.Tensor) else a for a in arguments]
        return lambda: function(*arguments)
    spec = importlib.util.spec_from_file_location("solution", place / solution.entry_file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run = getattr(module, solution.entry_function)
    return lambda: run(*arguments)


def _compiled(solution: Solution, device: str, place: Path) -> Path:
    toolchain, library = find_toolchain(), place / "solution.so"
    options = solution.spec.compile_options or CompileOptions()
    assert toolchain is not None and toolchain.include is not None, "needs a C++ compiler"
    if device.startswith("cpu"):
        command = [toolchain.compiler, "-std=c++17", "-shared", "-fPIC", *options.cflags]
    else:
        nvcc = find_nvcc()
        assert nvcc is not None, "needs nvcc"
        major, minor = torch.cuda.get_device_capability(device)
        arch = f"{major}{minor}{'a' if major >= 9 else ''}"
        command = [nvcc.program, *nvcc_flags(options.cuda_cflags, options.cflags, str(place), arch)]
    command += [f"-I{toolchain.include}", str(place / solution.entry_file), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    return library


def loop(call: Call, device: str, seconds: float) -> dict[str, float]:
    """Call again and again for so many seconds; return what one call took, and the device's state."""
    wait: Callable[[], object] = (
        (lambda: None) if device.startswith("cpu") else lambda: torch.cuda.synchronize(device)
    )
    call()
    wait()
    batch, begin = 1, time.perf_counter()
    while time.perf_counter() - begin < _WARM_SECONDS:
        started = time.perf_counter()
        for _ in range(batch):
            call()
        wait()
        # A batch is about a tenth of a second, so that waiting between batches does not count.
        each = (time.perf_counter() - started) / batch
        batch = max(1, min(100_000, round(0.1 / each)))
    with tempfile.TemporaryFile("w+") as seen:
        watcher = _watch(device, seen)
        calls, begin = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < seconds:
            for _ in range(batch):
                call()
            wait()
            calls += batch
        elapsed = time.perf_counter() - begin
        if watcher is not None:
            watcher.terminate()
            watcher.wait()
        seen.seek(0)
        states = [line.split(",") for line in seen.read().splitlines() if line.count(",") == 1]
    found = {"us": 1e6 * elapsed / calls, "calls": float(calls), "seconds": elapsed}
    # The first look is from before the loop had warmed the device.
    for index, name in enumerate(("sm_mhz", "watts")):
        if len(states) > 1:
            found[name] = statistics.median(float(state[index]) for state in states[1:])
    return found


def _watch(device: str, seen: Any) -> subprocess.Popen[str] | None:
    program = shutil.which("nvidia-smi")
    if device.startswith("cpu") or program is None:
        return None
    # By UUID: nvidia-smi does not count as a process with CUDA_VISIBLE_DEVICES does.
    which = driver.device_uuid(int(device.partition(":")[2]))
    query = "--query-gpu=clocks.sm,power.draw"
    command = [program, f"--id={which}", query, "--format=csv,noheader,nounits", "-lms", "200"]
    return subprocess.Popen(command, stdout=seen, text=True)


if __name__ == "__main__":
    main()
