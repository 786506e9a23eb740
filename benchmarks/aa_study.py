"""A/A on a real device: records judged against themselves, and with a planted delay.

Each problem's seed is submitted as its own candidate, in disguise, through the gate, the screen and, where that is
promising, the confirmation: any KEEP is false. The same with a delay planted in the kernel's source: the candidate's
own code waits until its call has taken that much longer, so that there is no second launch. Prints the verdicts with
exact bounds, then what an empty window costs; --raw takes every pair, and `kernelarc-mcp verify --pairs` decides them
again.

    python benchmarks/aa_study.py --submissions 100 --planted-submissions 20 --raw pairs.jsonl
"""

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import anyio

from benchmarks.window_cost import print_costs
from kernelarc_guard import decide
from kernelarc_guard.canary import exact_interval
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Result
from kernelarc_guard.solution import Solution, SourceFile, seed_solution
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.evaluation import STAKE
from kernelarc_mcp.host.guard_client import GuardClient
from kernelarc_mcp.recorded import Recorded, append_recorded
from kernelarc_mcp.requests import Requests

DEADLINE = 3600.0
_ENTRY = re.compile(r'extern "C" int run\(([^)]*)\)')
_PLANTED = """
#include <chrono>
extern "C" int run({parameters}) {{
  const auto begin = std::chrono::steady_clock::now();
  const int status = planted_body({arguments});
  const auto spent = std::chrono::steady_clock::now() - begin;
  while (std::chrono::steady_clock::now() - begin < spent * {factor}) {{}}
  return status;
}}
"""


@dataclass(frozen=True)
class Case:
    """One problem with its record and what is known of its noise."""

    name: str
    requests: Requests
    record: Solution
    calibration: decide.Calibration


def main() -> None:
    """Run the trials and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--submissions", type=int, default=100, help="A/A, per problem")
    parser.add_argument(
        "--planted", type=float, action="append", help="delay in percent (3 and 10)"
    )
    parser.add_argument("--planted-submissions", type=int, default=20, help="per problem and delay")
    parser.add_argument("--problem", action="append", help="rmsnorm, softmax and topk")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--nurseries", type=int, default=3, help="of each calibration")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the guard")
    parser.add_argument("--raw", type=Path, help="append all pairs to this file, one JSON a line")
    parser.add_argument("--windows", type=int, default=2000)
    options = parser.parse_args()
    anyio.run(study, options)
    if options.device == "cpu":
        print_costs(options.windows, pairs=10)


async def study(options: argparse.Namespace) -> None:
    """Judge every problem's record against itself, then with each planted delay."""
    names = options.problem or ["rmsnorm", "softmax", "topk"]
    plan = [(0.0, options.submissions)]
    plan += [(delay, options.planted_submissions) for delay in options.planted or [3.0, 10.0]]
    kept = judged = 0
    print(
        f"{'problem':<16}{'planted':>8}{'n':>5}{'KEEP':>6}{'95 % exact':>16}{'slower':>8}{'95 % exact':>16}"
        f"{'estimate %':>12}{'pairs':>7}{'s each':>8}  other verdicts"
    )
    with tempfile.TemporaryDirectory() as cache:
        async with GuardClient(options.python) as guard:
            for name in names:
                case = await prepare(guard, name, options, cache)
                for planted, count in plan:
                    runs = [
                        await judge(guard, case, planted, index, options.raw)
                        for index in range(count)
                    ]
                    if runs:
                        print_row(case, planted, runs)
                    if not planted:
                        judged += len(runs)
                        kept += sum(results[-1].verdict == "KEEP" for results, _ in runs)
    _, upper = exact_interval(kept, judged, error=0.1)
    print(f"\nfalse KEEPs: {kept} of {judged} A/A (exact upper 95 % bound {upper:.2%})")


async def prepare(guard: GuardClient, name: str, options: argparse.Namespace, cache: str) -> Case:
    """Calibrate a problem on its seed."""
    folder = data_dir("kernels") / name
    problem = read_problem(folder)
    record = seed_solution(folder, problem.definition)
    assert record is not None
    requests = Requests(problem, options.device, cache, default_parameters(options.device))
    request = requests.calibrate("calibrate", record, nurseries=options.nurseries, pairs=8)
    found = (await guard.judge(request, deadline=DEADLINE)).calibration
    assert found is not None
    print(
        f"{name:<16} calibrated: {found.pairs} pairs, sd {found.sd_confirm:.2f} %, delta"
        f" {found.delta:.2f} %, resolves {found.resolution:.2f} %{', BIASED' * found.biased}",
        flush=True,
    )
    return Case(name, requests, record, found)


def disguised(record: Solution, planted: float, index: int) -> Solution:
    """Return the record under another name; where a delay is planted, with it in the source."""
    named = record.model_copy(update={"name": f"{record.name}_{index}"})
    if not planted:
        return named
    (source,) = record.sources
    parameters = _ENTRY.search(source.content)
    assert parameters is not None, "a planted delay needs a C++ entry `run`"
    arguments = ", ".join(re.findall(r"(\w+)\s*(?:,|$)", parameters[1]))
    text = _ENTRY.sub(lambda m: f"static int planted_body({m[1]})", source.content)
    text += _PLANTED.format(parameters=parameters[1], arguments=arguments, factor=1 + planted / 100)
    return named.model_copy(update={"sources": [SourceFile(path=source.path, content=text)]})


async def judge(
    guard: GuardClient, case: Case, planted: float, index: int, raw: Path | None
) -> tuple[list[Result], float]:
    """Judge the record as if it were a candidate; return its results and the seconds it took."""
    requests, record, noise = case.requests, case.record, case.calibration
    candidate, begin = disguised(record, planted, index), time.monotonic()
    screen = requests.screen(f"s{index}", record, candidate, calibration=noise, stake=STAKE)
    results = [await guard.judge(screen, deadline=DEADLINE)]
    if results[0].verdict is None:
        confirm = requests.confirm(f"c{index}", record, candidate, calibration=noise, stake=STAKE)
        results.append(await guard.judge(confirm, deadline=DEADLINE))
    seconds = time.monotonic() - begin
    if raw is not None:
        recorded = Recorded(
            problem=case.name,
            planted=planted,
            weights=requests.problem.weights(),
            parameters=requests.parameters,
            stake=STAKE,
            results=results,
        )
        append_recorded(raw, recorded)
    return results, seconds


def print_row(case: Case, planted: float, runs: list[tuple[list[Result], float]]) -> None:
    """Print what became of one kind of submission."""
    last = [results[-1] for results, _ in runs]
    verdicts = Counter(f"{one.verdict} {one.reason}" for one in last)
    keep, slower = verdicts.pop("KEEP confirmed", 0), verdicts.pop("REVERT slower", 0)
    estimates = [one.decision.mean_percent for one in last if one.decision is not None]
    pairs = statistics.median(sum(len(one.pairs) for one in results) for results, _ in runs)
    seconds = statistics.median(spent for _, spent in runs)
    estimate = f"{statistics.median(estimates):+.2f}" if estimates else ""
    others = ", ".join(f"{count} {what}" for what, count in verdicts.most_common())
    print(
        f"{case.name:<16}{planted:>6g} %{len(runs):>5}{keep:>6}{_bounds(keep, len(runs)):>16}"
        f"{slower:>8}{_bounds(slower, len(runs)):>16}{estimate:>12}{pairs:>7g}{seconds:>8.1f}  {others}",
        flush=True,
    )


def _bounds(hits: int, count: int) -> str:
    low, high = exact_interval(hits, count)
    return f"{low:.1%}..{high:.1%}"


if __name__ == "__main__":
    main()
