"""Do solutions of the library beat their problem's eager reference? Screened and confirmed by the guard.

    python -m benchmarks.library_keeps --device cuda:0 --raw FILE --seconds 120

The record is the reference as it is written. Each judgement calibrates first, and goes as a row to the
raw file as soon as it is there; solutions that have a row are not judged again.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import anyio

from kernelarc_guard.devices import default_parameters
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Result
from kernelarc_guard.solution import read_solution, reference_solution
from kernelarc_mcp.cli.options import library
from kernelarc_mcp.evaluation import STAKE
from kernelarc_mcp.host.guard_client import GuardClient, GuardError
from kernelarc_mcp.requests import Requests

SOLUTIONS: Final = (
    ("cross_entropy", "online_triton.py"),
    ("causal_conv", "naive.cu"),
    ("fused_add_rmsnorm", "rows_triton.py"),
    ("swiglu", "halves_triton.py"),
    ("rope", "tokens_triton.py"),
    ("gqa_decode", "split_triton.py"),
    ("rmsnorm", "naive.cu"),
    ("softmax", "naive.cu"),
)
"""Problem and file of each, in order of promise."""
DEADLINE: Final = 120.0


def main() -> None:
    """Judge what has no row yet, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300.0, help="nothing is begun after these")
    parser.add_argument("--blocks", type=int, default=2, help="most blocks of a pair")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the guard")
    options = parser.parse_args()
    anyio.run(study, options)
    print(
        "| problem | solution | verdict | over the reference | proven more than | pairs | seconds |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in read(options.raw):
        print(
            f"| {row['problem']} | `{row['solution']}` | {row['verdict']} {row['reason']} |"
            f" {row['speedup']} | {row['proven']} | {row['pairs']} | {row['seconds']} |"
        )


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a raw file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def study(options: argparse.Namespace) -> None:
    """Judge the solutions one after the other, until the time is over."""
    end = time.monotonic() + options.seconds
    known = {(row["problem"], row["solution"]) for row in read(options.raw)}
    with tempfile.TemporaryDirectory() as cache:
        async with GuardClient(options.python) as guard:
            for name, file in SOLUTIONS:
                if (name, file) in known or time.monotonic() > end:
                    continue
                begin = time.monotonic()
                try:
                    results = await judge(guard, options, cache, name, file)
                except GuardError as error:
                    print(f"{name} {file}: the guard {error}", flush=True)
                    continue
                row = _row(name, file, results, time.monotonic() - begin)
                with options.raw.open("a") as raw:
                    raw.write(json.dumps(row) + "\n")
                print(f"{name} {file}: {row['verdict']} {row['detail']}", flush=True)


async def judge(
    guard: GuardClient, options: argparse.Namespace, cache: str, name: str, file: str
) -> list[Result]:
    """Screen one solution against the reference, and confirm it where that is promising."""
    folder = library()[name]
    on_cpu = options.device == "cpu"
    problem = read_problem(folder, "workload.jsonl" if on_cpu else "workload.gpu.jsonl")
    record = reference_solution(problem.definition)
    candidate = read_solution(folder / "solutions" / file, problem.definition)
    parameters = default_parameters(options.device).model_copy(
        update={"blocks_screen": 1, "blocks_confirm": options.blocks}
    )
    requests = Requests(problem, options.device, cache, parameters)
    screen = await guard.judge(
        requests.screen("screen", record, candidate, calibration=None, stake=STAKE),
        deadline=DEADLINE,
    )
    if screen.verdict is not None or screen.calibration is None:
        return [screen]
    confirm = requests.confirm(
        "confirm", record, candidate, calibration=screen.calibration, stake=STAKE
    )
    return [screen, await guard.judge(confirm, deadline=DEADLINE)]


def _row(name: str, file: str, results: list[Result], seconds: float) -> dict[str, Any]:
    last = results[-1]
    decision = last.decision
    return {
        "problem": name,
        "solution": file,
        "verdict": last.verdict,
        "reason": last.reason,
        "detail": last.detail,
        "speedup": decision.speedup if decision else None,
        "proven": decision.lower if decision else None,
        "pairs": len(last.pairs),
        "seconds": round(seconds, 1),
        "results": [one.model_dump(mode="json") for one in results],
    }


if __name__ == "__main__":
    main()
