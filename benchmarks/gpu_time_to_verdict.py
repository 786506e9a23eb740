"""Time to a verdict on a GPU, stage by stage, as a campaign has it: calibrated, with a warm nursery and an anchor.

    python -m benchmarks.gpu_time_to_verdict --repeat 3 --out FOLDER
    python -m benchmarks.gpu_time_to_verdict --repeat 3 --steps --out FOLDER

RMSNorm of bfloat16 rows of 4096 on 14 workloads (1 to 14,509 rows), in a real guard process. Three candidates, a new
source each time: a Triton kernel that is clearly slower than the record, one that is more than twice as fast, and a CUDA
C++ kernel with its build. Prints medians over the repeats in seconds from the request to the
verdict, and the seconds of the confirming pairs, those with two runners apart from those with the anchor as the third;
writes every answer of the guard to FOLDER/h200_verdict.json. `--steps` times each step of these pairs, too
(`benchmarks/pair_steps.py`), which makes them a little longer.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio

from benchmarks.pair_steps import PAIR, Trace, interpreter, print_pairs, print_steps, sort_of
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Progress, Result
from kernelarc_guard.rule import Calibration
from kernelarc_guard.solution import Solution, make_solution, read_solution
from kernelarc_mcp.evaluation import STAKE
from kernelarc_mcp.host.guard_client import GuardClient
from kernelarc_mcp.requests import Requests

FOLDER: Final = Path(__file__).parent / "problems" / "rmsnorm_h4096"
RECORD: Final = "two_sweeps.py"
ANCHOR: Final = "operators.py"
DEADLINE: Final = 600.0
WARM_SECONDS: Final = 5.0
HEAD: Final = ("policy", "build", "smoke", "correct", "screen", "pairs", "alone", "rest", "total")


@dataclass(frozen=True)
class Case:
    """One candidate against the record, and the verdict that is expected."""

    name: str
    candidate: str
    verdict: str


CASES: Final = (
    Case("faster, Triton", "one_pass.py", "KEEP"),
    Case("slower, Triton", "small_steps.py", "REVERT"),
    Case("CUDA C++ and build", "vectors.cu", "KEEP"),
)


@dataclass
class Run:
    """One judgement."""

    case: str
    seconds: dict[str, float]
    pair_seconds: list[float]
    """Of all confirming pairs; the first one's is with what comes before it."""
    steps: list[dict[str, Any]]
    """The same pairs step by step, where these are timed."""
    stages: list[dict[str, Any]]
    """The smoke run and the correctness stage in the same way."""
    results: list[Result] = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return what is kept of it."""
        last = self.results[-1]
        return {
            "case": self.case,
            "seconds": {name: round(value, 4) for name, value in self.seconds.items()},
            "pair_seconds": [round(one, 4) for one in self.pair_seconds],
            "pair_steps": self.steps,
            "stage_steps": self.stages,
            "verdict": last.verdict,
            "reason": last.reason,
            "detail": last.detail,
            "workloads": [one.model_dump(mode="json") for one in last.workloads],
            "observations": [seen for one in self.results for seen in one.observations],
            "protection": last.protection,
            "pairs": [[pair.model_dump(mode="json") for pair in one.pairs] for one in self.results],
            "apart": [pair.model_dump(mode="json") for pair in last.apart],
        }

    def by_sort(self) -> dict[str, list[float]]:
        """Return the seconds of its confirming pairs but for the first, by how many runners they had."""
        sorts: dict[str, list[float]] = defaultdict(list)
        if self.steps:
            for step in self.steps[1:]:
                sorts[sort_of(step)].append(step["seconds"])
        elif len(self.results) > 1:
            timed = list(zip(self.results[1].pairs, self.pair_seconds, strict=True))
            for pair, seconds in timed[1:]:
                beside = any(block.anchor for block in pair.blocks)
                sorts["three runners" if beside else "two runners"].append(seconds)
        return sorts


class Clock:
    """When the guard said that a block was measured."""

    def __init__(self) -> None:
        self.blocks: list[float] = []

    def tell(self, progress: Progress) -> None:
        """Take note of a progress message."""
        if progress.message.endswith("a block is measured"):
            self.blocks.append(time.perf_counter())


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the guard")
    parser.add_argument("--calibration-pairs", type=int, default=8)
    parser.add_argument("--calibration-blocks", type=int, default=8, help="of each pair")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--no-anchor", action="store_true", help="as `evaluate` does")
    parser.add_argument("--steps", action="store_true", help="time each step of a pair")
    parser.add_argument("--out", type=Path, default=Path("."))
    options = parser.parse_args()
    anyio.run(study, options)


async def study(options: argparse.Namespace) -> None:
    """Judge each case several times."""
    problem = read_problem(FOLDER)
    known = {
        path.name: read_solution(path, problem.definition)
        for path in sorted((FOLDER / "solutions").iterdir())
    }
    record, anchor = known[RECORD], None if options.no_anchor else known[ANCHOR]
    raw: dict[str, Any] = {"runs": []}
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        python, trace = options.python, None
        if options.steps:
            file = Path(cache) / "pairs.jsonl"
            file.touch()
            python, trace = interpreter(Path(cache), file, python), Trace(file)
        everything: list[Run] = []
        async with GuardClient(python, options.out / "guard.log") as guard:
            blocks = {"blocks_confirm": options.calibration_blocks}
            parameters = default_parameters(options.device).model_copy(update=blocks)
            requests = Requests(problem, options.device, cache, parameters)
            calibration = await calibrate(guard, requests, record, options.calibration_pairs)
            raw["calibration"] = calibration.model_dump(mode="json")
            print(f"{'seconds':<28}" + "".join(f"{stage:>9}" for stage in HEAD) + "   pair")
            cold = True
            for case in CASES:
                runs: list[Run] = []
                for index in range(options.repeat if options.only in case.name else 0):
                    if cold:
                        # Until the spare nursery has imported, as it does while agents think.
                        await anyio.sleep(WARM_SECONDS)
                    candidate = _new(known[case.candidate], index)
                    runs.append(
                        await judge(
                            guard, requests, case, record, candidate, calibration, anchor, trace
                        )
                    )
                    cold = len(runs[-1].results) > 1
                    raw["runs"].append(runs[-1].as_json())
                    (options.out / "h200_verdict.json").write_text(json.dumps(raw))
                if runs:
                    print_row(case, runs)
                everything += runs
        print_all_pairs(everything)


async def calibrate(
    guard: GuardClient, requests: Requests, record: Solution, pairs: int
) -> Calibration:
    """Calibrate, as a campaign does once at its start."""
    begin = time.perf_counter()
    ask = requests.calibrate("c", record, nurseries=1, pairs=pairs)
    found = (await guard.judge(ask, deadline=DEADLINE)).calibration
    assert found is not None
    print(
        f"calibrated in {time.perf_counter() - begin:.1f} s: sd {found.sd_confirm:.3f} %,"
        f" {found.blocks_confirm} blocks, resolution {found.resolution} %, a pair's start"
        f" {found.pair_seconds:.3f} s, a block {found.block_seconds:.3f} s",
        flush=True,
    )
    return found


def _new(solution: Solution, index: int) -> Solution:
    """Return the same kernel as sources that were never seen."""
    fields = solution.model_dump(mode="json")
    mark = "#" if solution.entry_file.endswith(".py") else "//"
    for source in fields["sources"]:
        source["content"] += f"\n{mark} attempt {index} {time.time_ns()}\n"
    return make_solution(fields)


async def judge(
    guard: GuardClient,
    requests: Requests,
    case: Case,
    record: Solution,
    candidate: Solution,
    calibration: Calibration,
    anchor: Solution | None,
    trace: Trace | None,
) -> Run:
    """Screen a candidate and confirm it where that is promising, as a dispatcher does."""
    clock = Clock()
    begin = time.perf_counter()
    screen = await guard.judge(
        requests.screen("s", record, candidate, calibration=calibration, stake=STAKE),
        deadline=DEADLINE,
        on_progress=clock.tell,
    )
    results, confirming = [screen], time.perf_counter()
    clock.blocks.clear()
    stages = []
    if trace is not None:
        # The pairs are the screen's, or a calibration's.
        stages = [one for one in trace.new() if one["what"] != PAIR]
    if screen.verdict is None:
        ask = requests.confirm(
            "k", record, candidate, calibration=calibration, stake=STAKE, anchor=anchor
        )
        results.append(await guard.judge(ask, deadline=DEADLINE, on_progress=clock.tell))
    end = time.perf_counter()
    if results[-1].verdict != case.verdict:
        print(f"expected {case.verdict}: {results[-1].verdict} {results[-1].detail}", flush=True)
    spent = {name: 0.0 for name in HEAD}
    for stage, report in screen.stages.items():
        name = {"correctness": "correct", "timing": "screen"}.get(stage, stage)
        spent[name] = spent.get(name, 0.0) + report.seconds
    gaps: list[float] = []
    if len(results) > 1:
        ticks = [confirming, *clock.blocks]
        last = len(results[1].pairs) * calibration.blocks_confirm
        spent["pairs"] = ticks[last] - confirming
        spent["alone"] = end - ticks[last]
        per_pair = ticks[: last + 1 : calibration.blocks_confirm]
        gaps = [b - a for a, b in zip(per_pair, per_pair[1:], strict=False)]
    spent["total"] = end - begin
    spent["rest"] = spent["total"] - sum(v for n, v in spent.items() if n not in ("total", "rest"))
    timed = trace.new() if trace is not None and len(results) > 1 else []
    return Run(case.name, spent, gaps, timed, stages, results)


def print_row(case: Case, runs: list[Run]) -> None:
    """Print the medians of one case."""
    cells = "".join(
        f"{statistics.median(run.seconds[stage] for run in runs):>9.3f}" for stage in HEAD
    )
    gaps = [gap for run in runs for gap in run.pair_seconds[1:]]
    pair = f"{statistics.median(gaps):7.3f}" if gaps else ""
    last = runs[-1].results[-1]
    print(f"{case.name:<21}{last.verdict or '':<7}{cells}{pair}   {last.detail[:90]}", flush=True)


def print_all_pairs(runs: list[Run]) -> None:
    """Print the seconds of all runs' confirming pairs, and their steps where these were timed."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for sort, values in run.by_sort().items():
            seconds[sort] += values
    if seconds:
        print_pairs(seconds)
    steps = [step for run in runs for step in (*run.steps[1:], *run.stages)]
    if steps:
        print_steps(steps)


if __name__ == "__main__":
    main()
