"""A/A on the CPU: the record judged against itself, and what a window costs.

Submits each problem's seed as its own candidate, in disguise (the folder differs, the code does not), through
the gate, the screen and, where the screen is promising, the confirmation. Prints the verdicts, the spread of the
pairs and the exact upper bound of the false KEEP rate; then the overhead of an empty window.

    python benchmarks/aa_cpu.py --submissions 20 --problem rmsnorm --problem softmax --raw pairs.json
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

import anyio
from scipy import stats

from kernelarc_guard import decide
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.protocol import Calibrate, Confirm, PairTimes, Result, Screen
from kernelarc_guard.solution import Solution, seed_solution
from kernelarc_guard.window import Window
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.evaluation import STAKE
from kernelarc_mcp.host.guard_client import GuardClient

DEADLINE = 1800.0


def main() -> None:
    """Run the trials and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--submissions", type=int, default=20, help="per problem")
    parser.add_argument("--problem", action="append", default=[])
    parser.add_argument("--python", default=sys.executable, help="interpreter of the guard")
    parser.add_argument("--raw", type=Path, help="write all pairs to this JSON file")
    parser.add_argument("--windows", type=int, default=2000)
    options = parser.parse_args()
    raw = anyio.run(study, options.problem or ["rmsnorm", "softmax"], options)
    if options.raw:
        options.raw.write_text(json.dumps(raw, indent=1))
    print_window(options.windows)


async def study(problems: list[str], options: argparse.Namespace) -> dict[str, object]:
    """Judge every problem's record against itself."""
    raw: dict[str, object] = {}
    verdicts: Counter[str] = Counter()
    print(
        f"{'problem':<18}{'n':>4}  {'verdicts':<44}{'pairs':>6}{'sd %':>8}{'largest %':>11}{'s each':>8}"
    )
    with tempfile.TemporaryDirectory() as cache:
        async with GuardClient(options.python) as guard:
            for name in problems:
                folder = data_dir("kernels") / name
                problem = read_problem(folder)
                record = seed_solution(folder, problem.definition)
                assert record is not None
                calibration = await calibrate(guard, problem, record, cache)
                results = [
                    await judge(guard, problem, record, calibration, cache, index)
                    for index in range(options.submissions)
                ]
                seen = Counter(f"{r[-1].verdict} {r[-1].reason}" for r in results)
                verdicts.update(r[-1].verdict or "" for r in results)
                values = [value(pair, problem) for r in results for one in r for pair in one.pairs]
                seconds = statistics.median(sum(one.seconds for one in r) for r in results)
                said = ", ".join(f"{count} {what}" for what, count in seen.most_common())
                largest = max(values, key=abs)
                print(
                    f"{name:<18}{len(results):>4}  {said:<44}{len(values):>6}"
                    f"{statistics.stdev(values):>8.3f}{largest:>+11.3f}{seconds:>8.1f}",
                    flush=True,
                )
                raw[name] = {
                    "calibration": calibration.model_dump(),
                    "results": [[one.model_dump(mode="json") for one in r] for r in results],
                }
    total, kept = sum(verdicts.values()), verdicts["KEEP"]
    upper = stats.binomtest(kept, total).proportion_ci(0.9, method="exact").high
    print(f"\nfalse KEEPs: {kept} of {total} (exact upper 95 % bound {100 * upper:.1f} %)")
    return raw


async def calibrate(
    guard: GuardClient, problem: Problem, record: Solution, cache: str
) -> decide.Calibration:
    """Run the short calibration a campaign starts with."""
    request = Calibrate(
        id="calibrate",
        cache_dir=cache,
        problem=problem,
        record=record,
        parameters=default_parameters("cpu"),
    )
    result = await guard.judge(request, deadline=DEADLINE)
    assert result.calibration is not None
    return result.calibration


async def judge(
    guard: GuardClient,
    problem: Problem,
    record: Solution,
    calibration: decide.Calibration,
    cache: str,
    index: int,
) -> list[Result]:
    """Judge the record as if it were a candidate."""
    disguised = record.model_copy(update={"name": f"{record.name}_{index}"})
    screen = await guard.judge(
        Screen(
            id=f"s{index}",
            cache_dir=cache,
            problem=problem,
            record=record,
            candidate=disguised,
            calibration=calibration,
            parameters=default_parameters("cpu"),
            stake=STAKE,
        ),
        deadline=DEADLINE,
    )
    if screen.verdict is not None:
        return [screen]
    confirm = await guard.judge(
        Confirm(
            id=f"c{index}",
            cache_dir=cache,
            problem=problem,
            record=record,
            candidate=disguised,
            calibration=calibration,
            parameters=default_parameters("cpu"),
            stake=STAKE,
        ),
        deadline=DEADLINE,
    )
    return [screen, confirm]


def value(pair: PairTimes, problem: Problem) -> float:
    """Return a pair's value in percent."""
    return decide.pair_value([(b.record, b.candidate) for b in pair.blocks], problem.weights())


def print_window(count: int) -> None:
    """Time windows around a process that stops again at once."""
    pid = os.fork()
    if pid == 0:
        while True:
            os.kill(os.getpid(), 19)
    window = Window(pid)
    window.wait_stopped(10)
    times = []
    for _ in range(count):
        window.check_still()
        times.append(window.go(10) / 1e3)
    window.kill()
    low, mid, high = statistics.quantiles(times, n=4)
    print(
        f"\nempty window, {count} calls: median {mid:.1f} us, quartiles {low:.1f} to {high:.1f} us, "
        f"largest {max(times):.0f} us"
    )


if __name__ == "__main__":
    main()
