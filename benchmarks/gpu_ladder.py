"""BF16 GEMM 4096^3 on a GPU: from a naive kernel to the library, each judged against the library.

    python -m benchmarks.gpu_ladder --out FOLDER --seconds 120

The record is `torch.mm`, which is cuBLAS. Every other rung goes through the gate and the screen and,
where that promises something, the confirmation; `tuned.py` is what a campaign judges as `cuBLASLt
autotuned`, which needs nvmath-python. TFLOPS cold are from the guard's windows, whose
caches are cold and whose inputs are new; sustained is a loop in a process of its own. `--device cpu`
tries the same on a CPU's workload.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from kernelarc_guard.decide import Calibration
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.protocol import Result
from kernelarc_guard.solution import Solution, read_solution
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.evaluation import STAKE
from kernelarc_mcp.host.guard_client import GuardClient, GuardError
from kernelarc_mcp.host.products import tuned_product
from kernelarc_mcp.requests import Requests

RECORD = "cublas.py"
RUNGS = ("naive.cu", "wmma.cu", "tiles_triton.py", "returned.py", "tuned.py")
_CPU_RUNGS = ("seed.json", "returned.py")
_TORCH = '"""The library again, returning its result."""\n\n\ndef run(a, b):\n    return a @ b\n'
_DEADLINE = 300.0


@dataclass(frozen=True)
class Rung:
    """What became of one solution."""

    solution: str
    verdict: str
    reason: str
    detail: str
    pairs: int
    seconds: float
    """From request to verdict."""
    cold_us: float | None
    record_us: float | None
    """The record beside it."""
    sustained: dict[str, float]


def main() -> None:
    """Judge the rungs, run each back to back, and write table and numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=150.0, help="no rung begins after these")
    parser.add_argument("--loop", type=float, default=2.0, help="seconds of each sustained loop")
    parser.add_argument("--pairs", type=int, default=6, help="of the calibration")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the guard")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    on_cpu = options.device.startswith("cpu")
    folder = data_dir("kernels") / "gemm_bf16"
    workloads = "workload.jsonl" if on_cpu else "workload.gpu.jsonl"
    whole = read_problem(folder, workloads)
    problem = whole.model_copy(update={"workloads": whole.workloads[:1]})
    with tempfile.TemporaryDirectory() as place:
        made = {"returned.py": _TORCH, "tuned.py": _tuned(problem)}
        for name, source in made.items():
            (Path(place) / name).write_text(source)
        paths = [
            Path(place) / name if name in made else folder / "solutions" / name
            for name in (RECORD, *(_CPU_RUNGS if on_cpu else RUNGS))
        ]
        fast = _sustained(paths, folder, workloads, options)
        found = anyio.run(judged, problem, paths, fast, options)
    calibration, rungs = found
    table = markdown(problem, rungs, fast[RECORD], calibration)
    print(table)
    numbers = {
        "workload": problem.workloads[0].axes,
        "calibration": calibration.model_dump(mode="json"),
        "record_sustained": fast[RECORD],
        "rungs": [asdict(one) for one in rungs],
    }
    (options.out / "h200_gemm_ladder.json").write_text(json.dumps(numbers, indent=1) + "\n")
    (options.out / "h200_gemm_ladder.md").write_text(table + "\n")


def _tuned(problem: Problem) -> str:
    tuned = tuned_product(problem.definition, "tuned")
    assert tuned is not None, "the problem is one product"
    return tuned.sources[0].content


def _sustained(
    paths: list[Path], folder: Path, workloads: str, options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Run each solution back to back in one process for each; empty where it failed."""
    found: dict[str, dict[str, float]] = {}
    for path in paths:
        command = [sys.executable, "-m", "benchmarks.sustained", str(path)]
        command += ["--problem", str(folder), "--workloads", workloads]
        command += ["--device", options.device, "--seconds", str(options.loop)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found[path.name] = json.loads(done.stdout) if done.returncode == 0 else {}
        if done.returncode:
            print(f"{path.name}: not run back to back: {done.stderr[-400:]}", file=sys.stderr)
    return found


async def judged(
    problem: Problem,
    paths: list[Path],
    fast: dict[str, dict[str, float]],
    options: argparse.Namespace,
) -> tuple[Calibration, list[Rung]]:
    """Judge every rung against the record, the first of the paths."""
    begin = time.monotonic()
    record, *candidates = [read_solution(path, problem.definition) for path in paths]
    rungs = []
    with tempfile.TemporaryDirectory() as cache:
        requests = Requests(problem, options.device, cache, default_parameters(options.device))
        async with GuardClient(options.python) as guard:
            request = requests.calibrate("calibrate", record, nurseries=1, pairs=options.pairs)
            calibration = (await guard.judge(request, deadline=_DEADLINE)).calibration
            assert calibration is not None
            for path, candidate in zip(paths[1:], candidates, strict=True):
                if time.monotonic() - begin > options.seconds:
                    print(f"{path.name}: not judged, the time is over", file=sys.stderr)
                    continue
                started = time.monotonic()
                try:
                    results = await _judge(guard, requests, record, candidate, calibration)
                except GuardError as error:
                    print(f"{path.name}: not judged: the guard {error}", file=sys.stderr)
                    continue
                spent = time.monotonic() - started
                rungs.append(_rung(path.name, results, spent, fast[path.name]))
                print(f"{path.name}: {rungs[-1].verdict} {rungs[-1].reason}", file=sys.stderr)
    return calibration, rungs


async def _judge(
    guard: GuardClient,
    requests: Requests,
    record: Solution,
    candidate: Solution,
    calibration: Calibration,
) -> list[Result]:
    screen = requests.screen("screen", record, candidate, calibration=calibration, stake=STAKE)
    results = [await guard.judge(screen, deadline=_DEADLINE)]
    if results[0].verdict is None:
        confirm = requests.confirm(
            "confirm", record, candidate, calibration=calibration, stake=STAKE
        )
        results.append(await guard.judge(confirm, deadline=_DEADLINE))
    return results


def _rung(name: str, results: list[Result], seconds: float, sustained: dict[str, float]) -> Rung:
    last = results[-1]
    workload = last.workloads[0] if last.workloads else None
    return Rung(
        solution=name,
        verdict=last.verdict or "",
        reason=last.reason or "",
        detail=last.detail,
        pairs=sum(len(one.pairs) for one in results),
        seconds=seconds,
        cold_us=None if workload is None else workload.candidate_us,
        record_us=None if workload is None else workload.record_us,
        sustained=sustained,
    )


def markdown(
    problem: Problem, rungs: list[Rung], record: dict[str, float], calibration: Calibration
) -> str:
    """Return the ladder as one table."""
    axes = problem.workloads[0].axes
    flop = 2 * axes["m"] * axes["n"] * axes["k"]
    lines = [
        "| solution | verdict against cuBLAS | cold us | TFLOPS cold | TFLOPS sustained | us | SM MHz | W |"
        " pairs | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    beside = [one.record_us for one in rungs if one.record_us]
    cold = sorted(beside)[len(beside) // 2] if beside else None
    rows = [(one.solution, f"{one.verdict} {one.reason}", one.cold_us, one) for one in rungs]
    for name, said, us, rung in [*rows, (RECORD, "the record", cold, None)]:
        fast = record if rung is None else rung.sustained
        cells = [
            name,
            said,
            _number(us, 1),
            _number(us and flop / us / 1e6, 1),
            _number(fast.get("us") and flop / fast["us"] / 1e6, 1),
            _number(fast.get("us"), 1),
            _number(fast.get("sm_mhz"), 0),
            _number(fast.get("watts"), 0),
            "" if rung is None else str(rung.pairs),
            "" if rung is None else f"{rung.seconds:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"Calibration of the record: {calibration.pairs} pairs, sd {calibration.sd_confirm:.3f} %"
        f" (upper bound), could prove {calibration.resolution:.2f} %.",
    ]
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    main()
