"""Time to verdict on the CPU backend, stage by stage, and what part of it was measuring.

    python benchmarks/time_to_verdict.py --repeat 5

Three candidates against a problem's naive seed: one the policy refuses before anything is built (REJECT), one that is
right and slower (REVERT), and one that is proven faster (KEEP). Medians over the repeats; the guard is warm. Then the
same REVERT and KEEP once more with every protection's own seconds.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import anyio

from benchmarks.protection_cost import judged, own_judge, print_steps
from kernelarc_guard.decide import Calibration
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.judgement import merged_stages
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Request, Result
from kernelarc_guard.reasons import Stage
from kernelarc_guard.solution import Solution, make_solution, seed_solution
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.evaluation import STAKE
from kernelarc_mcp.host.guard_client import GuardClient
from kernelarc_mcp.requests import Requests

PROBLEM = "rmsnorm"
SHOWN: tuple[Stage, ...] = ("policy", "build", "smoke", "correctness", "timing")
DEADLINE = 1800.0

REFUSED = "import socket\n\ndef run(x, weight):\n    return x\n"
SLOWER = """import torch

# attempt {index}
def run(x, weight):
    y = torch.empty_like(x)
    for column in range(x.shape[1]):
        y[:, column] = x[:, column] * torch.rsqrt((x * x).mean(-1) + 1e-6) * weight[column]
        if column == 40:
            break
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight
"""
FASTER = """#include <cmath>
#include <dlpack/dlpack.h>
// attempt {index}
extern "C" int run(const DLTensor* x, const DLTensor* weight, DLTensor* y) {{
  const int64_t rows = x->shape[0], hidden = x->shape[1];
  const float* w = static_cast<const float*>(weight->data);
  for (int64_t r = 0; r < rows; ++r) {{
    const float* in = static_cast<const float*>(x->data) + r * hidden;
    float* out = static_cast<float*>(y->data) + r * hidden;
    double sum = 0;
    for (int64_t c = 0; c < hidden; ++c) sum += in[c] * in[c];
    const float scale = 1 / std::sqrt(sum / hidden + 1e-6 + 0.0 * {index});
    for (int64_t c = 0; c < hidden; ++c) out[c] = in[c] * scale * w[c];
  }}
  return 0;
}}
"""


def python(source: str) -> Solution:
    """Return a value-returning torch solution."""
    return solution("pytorch", "kernel.py", source, {"destination_passing_style": False})


def cpp(source: str) -> Solution:
    """Return a C++ solution."""
    flags: dict[str, object] = {
        "binding": "dlpack",
        "compile_options": {"cflags": ["-ffast-math"], "ld_flags": []},
    }
    return solution("cpp", "kernel.cpp", source, flags)


def solution(language: str, path: str, source: str, spec: dict[str, object]) -> Solution:
    """Return a solution of one file."""
    return make_solution(
        {
            "name": "benchmark",
            "definition": PROBLEM,
            "spec": {"languages": [language], "entry_point": f"{path}::run", **spec},
            "sources": [{"path": path, "content": source}],
        }
    )


CASES: dict[str, Callable[[int], Solution]] = {
    "REJECT": lambda index: python(REFUSED),
    "REVERT": lambda index: python(SLOWER.format(index=index)),
    "KEEP": lambda index: cpp(FASTER.format(index=index)),
}


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the guard")
    options = parser.parse_args()
    anyio.run(study, options.repeat, options.python)


async def study(repeat: int, python_path: str) -> None:
    """Judge each case several times."""
    folder = data_dir("kernels") / PROBLEM
    problem = read_problem(folder)
    record = seed_solution(folder, problem.definition)
    assert record is not None
    head = "".join(f"{stage:>13}" for stage in SHOWN)
    print(f"{'seconds':<8}{'reason':<18}{'total':>8}{head}{'pairs':>7}{'timing share':>14}")
    with tempfile.TemporaryDirectory() as cache:
        async with GuardClient(python_path) as guard:
            requests = Requests(problem, "cpu", cache, default_parameters("cpu"))
            request = requests.calibrate("c", record, nurseries=1, pairs=8)
            calibration = (await guard.judge(request, deadline=DEADLINE)).calibration
            assert calibration is not None
            for name, make in CASES.items():
                runs = [
                    await judge(guard, requests, record, make(index), calibration)
                    for index in range(repeat)
                ]
                print_row(name, runs)
        print_protections(requests, record, calibration, repeat)


def print_protections(
    requests: Requests, record: Solution, calibration: Calibration, index: int
) -> None:
    """Print what each protection costs in the verdicts that take time; kernels are new ones."""
    spent = {}
    with own_judge() as judge:
        for name in ("REVERT", "KEEP"):
            candidate = CASES[name](index)
            asked: list[Request] = [
                requests.screen("s", record, candidate, calibration=calibration, stake=STAKE)
            ]
            if name == "KEEP":
                asked.append(
                    requests.confirm("c", record, candidate, calibration=calibration, stake=STAKE)
                )
            results, spent[name] = judged(judge, asked)
            assert results[-1].verdict == name, (results[-1].verdict, results[-1].detail)
    print()
    print_steps(spent)


async def judge(
    guard: GuardClient,
    requests: Requests,
    record: Solution,
    candidate: Solution,
    calibration: Calibration,
) -> tuple[float, list[Result]]:
    """Return the seconds from request to verdict and the results."""
    begin = time.perf_counter()
    screen = await guard.judge(
        requests.screen("s", record, candidate, calibration=calibration, stake=STAKE),
        deadline=DEADLINE,
    )
    results = [screen]
    if screen.verdict is None:
        confirm = requests.confirm("c", record, candidate, calibration=calibration, stake=STAKE)
        results.append(await guard.judge(confirm, deadline=DEADLINE))
    return time.perf_counter() - begin, results


def print_row(name: str, runs: list[tuple[float, list[Result]]]) -> None:
    """Print the medians of one case."""
    last = [results[-1] for _, results in runs]
    assert {one.verdict for one in last} == {name}, [(one.verdict, one.detail) for one in last]
    total = statistics.median(seconds for seconds, _ in runs)
    stages = [merged_stages(results) for _, results in runs]
    spent = {
        stage: statistics.median(s[stage].seconds if stage in s else 0.0 for s in stages)
        for stage in SHOWN
    }
    pairs = statistics.median(sum(len(one.pairs) for one in results) for _, results in runs)
    cells = "".join(f"{spent[stage]:>13.3f}" for stage in SHOWN)
    share = 100 * spent["timing"] / total
    print(f"{name:<8}{last[0].reason or '':<18}{total:>8.3f}{cells}{pairs:>7.0f}{share:>13.0f}%")


if __name__ == "__main__":
    main()
