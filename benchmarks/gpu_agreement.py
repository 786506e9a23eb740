"""Does the guard's clock agree with CUPTI, read independently? On the first GPU of this machine.

    python -m benchmarks.gpu_agreement --out FOLDER

Each kernel is timed by the guard (medians of a comparison's calls), and by a process of its own that
knows nothing of the guard: it makes its own inputs, evicts the cache, queues the calls behind a
kernel that spins, and reads from CUPTI's records when the call's first kernel began and its last one
ended. Tracing itself makes calls of several kernels longer, by what events around them show: that
share of it which lies between their kernels is taken off. Writes `h200_agreement.json` and prints the table. Needs cupti-python.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import anyio

from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.protocol import Compare, Result, Schedule
from kernelarc_guard.solution import Solution, read_solution
from kernelarc_mcp.host.guard_client import GuardClient

ROOT = Path(__file__).parent.parent
SOLUTIONS = ROOT / "tests" / "gpu" / "solutions"
DEADLINE = 300.0


@dataclass(frozen=True)
class Case:
    """Two solutions of one problem, and the axes that they are timed on."""

    problem: str
    solutions: tuple[str, str]
    axes: tuple[dict[str, int], ...]


CASES = (
    Case(
        "rmsnorm",
        ("rms_torch.py", "rms_triton.py"),
        (
            {"rows": 32, "hidden": 16384},
            {"rows": 1000, "hidden": 4095},
            {"rows": 4096, "hidden": 4096},
            {"rows": 16384, "hidden": 2048},
            {"rows": 65536, "hidden": 4096},
        ),
    ),
    Case(
        "matmul_residual",
        ("product_torch.py", "split_k.py"),
        ({"m": 1000, "k": 3001, "n": 2003}, {"m": 4096, "k": 4096, "n": 4096}),
    ),
    Case(
        "matmul_residual",
        ("product_torch.py", "product_torch.py"),
        ({"m": 4096, "k": 8192, "n": 8192},),
    ),
)


def main() -> None:
    """Time every kernel on both clocks, write the result, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--blocks", type=int, default=2)
    options = parser.parse_args()
    rows = anyio.run(by_guard, options.pairs, options.blocks)
    for row, read in zip(rows, by_cupti(rows), strict=True):
        row |= read
        between = (row["kernels"] - 1) / row["kernels"]
        row["cupti_us"] = row["cupti_read_us"] - between * max(row["slowed_us"], 0.0)
        row["difference_percent"] = 100 * (row["guard_us"] / row["cupti_us"] - 1)
    options.out.mkdir(parents=True, exist_ok=True)
    off = [abs(row["difference_percent"]) for row in rows]
    found = {"kernels": rows, "median_percent": median(off), "largest_percent": max(off)}
    (options.out / "h200_agreement.json").write_text(json.dumps(found, indent=1) + "\n")
    print(
        "| kernel | axes | kernels | CUPTI read us | tracing adds us | CUPTI us | guard us | difference |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        size = " x ".join(map(str, row["axes"].values()))
        print(
            f"| `{row['solution']}` | {size} | {row['kernels']} | {row['cupti_read_us']:.2f} |"
            f" {row['slowed_us']:.2f} | {row['cupti_us']:.2f} | {row['guard_us']:.2f} |"
            f" {row['difference_percent']:+.2f} % |"
        )
    print(f"median {median(off):.2f} %, largest {max(off):.2f} %")


async def by_guard(pairs: int, blocks: int) -> list[dict[str, Any]]:
    """Return solution, axes and the guard's median in microseconds, for each kernel."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        async with GuardClient(sys.executable) as guard:
            for number, case in enumerate(CASES):
                problem = _problem(case)
                first, second = (_solution(name, problem) for name in case.solutions)
                request = Compare(
                    id=f"agreement-{number}",
                    device="cuda:0",
                    cache_dir=cache,
                    problem=problem,
                    record=first,
                    candidate=second,
                    pairs=pairs,
                    blocks=blocks,
                    schedule=Schedule(),
                )
                result = await guard.judge(request, deadline=DEADLINE)
                print(f"{request.id}: {result.seconds:.1f} s", file=sys.stderr, flush=True)
                rows += _rows(case, result)
    return rows


def _problem(case: Case) -> Problem:
    whole = read_problem(ROOT / "kernels" / case.problem, "workload.gpu.jsonl")
    like = whole.workloads[0]
    return whole.model_copy(
        update={
            "workloads": [
                like.model_copy(update={"axes": axes, "uuid": f"agreement-{index}"})
                for index, axes in enumerate(case.axes)
            ]
        }
    )


def _solution(name: str, problem: Problem) -> Solution:
    return read_solution(SOLUTIONS / name, problem.definition)


def _rows(case: Case, result: Result) -> list[dict[str, Any]]:
    if result.verdict is not None:
        raise RuntimeError(f"{case}: {result.verdict} {result.reason}: {result.detail}")
    rows = []
    for axes, seen in zip(case.axes, result.workloads, strict=True):
        times = {case.solutions[0]: seen.record_us, case.solutions[1]: seen.candidate_us}
        rows += [
            {"solution": name, "axes": axes, "guard_us": microseconds}
            for name, microseconds in times.items()
        ]
    return rows


def by_cupti(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a process of its own reads of each kernel's calls, in microseconds."""
    asked = [{"file": str(SOLUTIONS / row["solution"]), "axes": row["axes"]} for row in rows]
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.cupti_reader"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=DEADLINE,
    )
    if ended.returncode:
        raise RuntimeError(ended.stderr[-2000:])
    return [
        {
            "cupti_read_us": median(one["spans"]),
            "kernels": one["kernels"],
            "slowed_us": one["slowed"],
        }
        for one in json.loads(ended.stdout)
    ]


if __name__ == "__main__":
    main()
