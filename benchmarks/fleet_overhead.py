"""What Ray adds to one request: the same requests to a guard of this process and to one behind Ray, in turn.

    python -m benchmarks.fleet_overhead [--requests 200] [--out fleet_overhead.json]

The guard is the tests' stand-in, which answers in milliseconds and imports no torch, so that what is left
of the difference is the way there and back: the stand-in, the broker, the actor and Ray between them. A screen
and a confirmation make one evaluation. Prints a Markdown table; exit status 1 where the median exceeds --most.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import anyio

_TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(_TESTS)]

from fleets import Fleet, fleet_in, scripted_guard  # noqa: E402

from kernelarc_guard.devices import default_parameters  # noqa: E402
from kernelarc_guard.problem import Problem, read_problem  # noqa: E402
from kernelarc_guard.protocol import Calibrate, Confirm, Request, Result, Screen  # noqa: E402
from kernelarc_guard.solution import (  # noqa: E402
    Solution,
    make_solution,
    reference_solution,
)
from kernelarc_mcp.data import data_dir  # noqa: E402
from kernelarc_mcp.host.fleet_client import FleetClient  # noqa: E402
from kernelarc_mcp.host.guard_client import GuardClient  # noqa: E402

_DEADLINE: Final = 120.0
_WARMING: Final = 10


def candidate(problem: Problem) -> Solution:
    """Return one that the stand-in takes for a fifth faster."""
    spec = {
        "languages": ["pytorch"],
        "entry_point": "k.py::run",
        "destination_passing_style": False,
    }
    content = problem.definition.reference + "\n\nPLAN = 'gain:20'\n"
    sources = [{"path": "k.py", "content": content}]
    name = problem.definition.name
    return make_solution({"name": "k", "definition": name, "spec": spec, "sources": sources})


async def evaluate(judge: Callable[[Request], Awaitable[Result]], request: Screen) -> list[float]:
    """Return the seconds of a screen and of the confirmation that follows it."""
    began = time.perf_counter()
    screen = await judge(request)
    between = time.perf_counter()
    assert screen.verdict is None and screen.calibration is not None
    shared: dict[str, Any] = {
        name: getattr(request, name) for name in ("cache_dir", "problem", "record")
    }
    confirm = Confirm(
        id=f"{request.id.removesuffix('-screen')}-confirm",
        candidate=request.candidate,
        anchor=request.record,
        parameters=request.parameters,
        calibration=screen.calibration,
        stake=1e-3,
        **shared,
    )
    asked = time.perf_counter()
    result = await judge(confirm)
    assert result.verdict == "KEEP"
    return [between - began, time.perf_counter() - asked]


async def measure(fleet: Fleet, guard: str, requests: int) -> dict[str, list[list[float]]]:
    """Return seconds, `[evaluation][part]`, by who judged."""
    problem = read_problem(data_dir("kernels") / "rmsnorm")
    record, parameters = reference_solution(problem.definition), default_parameters("cpu")
    shared: dict[str, Any] = {
        "cache_dir": str(fleet.folder / "own"),
        "problem": problem,
        "record": record,
    }
    took: dict[str, list[list[float]]] = {"local": [], "ray": []}
    async with (
        GuardClient(guard) as local,
        FleetClient(fleet.standin(), fleet.folder / "standin.log") as far,
    ):
        while await far.wait_lanes(0) != 1:
            pass
        calibration = (
            await far.judge(
                Calibrate(id="calibrate", parameters=parameters, **shared), deadline=_DEADLINE
            )
        ).calibration
        for number in range(requests + _WARMING):
            request = Screen(
                id=f"s{number}-screen",
                candidate=candidate(problem),
                parameters=parameters,
                calibration=calibration,
                **shared,
            )
            for who, client in (("local", local), ("ray", far)):

                async def judge(one: Request, client: GuardClient | FleetClient = client) -> Result:
                    return await client.judge(one, deadline=_DEADLINE)

                took[who].append(await evaluate(judge, request))
    return {who: times[_WARMING:] for who, times in took.items()}


def table(took: dict[str, list[list[float]]]) -> tuple[str, float]:
    """Return a Markdown table, and what Ray adds to an evaluation at the median, in ms."""
    lines = ["| | local, ms | Ray, ms | Ray adds, median of pairs, ms | 95th percentile, ms |"]
    lines.append("|---|---|---|---|---|")
    added = 0.0
    for name, of in (
        ("screen", lambda one: one[0]),
        ("confirmation", lambda one: one[1]),
        ("evaluation: both", sum),
    ):
        local, far = ([1e3 * of(one) for one in took[who]] for who in ("local", "ray"))
        more = [b - a for a, b in zip(local, far, strict=True)]
        added = median(more)
        late = quantiles(more, n=20)[-1]
        lines.append(
            f"| {name} | {median(local):.1f} | {median(far):.1f} | {added:.1f} | {late:.1f} |"
        )
    return "\n".join(lines), added


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=200, help="evaluations of each kind")
    parser.add_argument("--most", type=float, default=50.0, help="ms that Ray may add")
    parser.add_argument("--out", type=Path, help="JSON of every single time")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder)) as fleet:
        guard = scripted_guard(fleet.folder, "head")
        fleet.add("head", "--device", "cpu", "--guard-python", guard, head=True)
        fleet.wait_offered("head")
        took = anyio.run(measure, fleet, guard, asked.requests)
    text, added = table(took)
    print(f"{asked.requests} evaluations each, {os.cpu_count()} cores\n\n{text}")
    if asked.out:
        asked.out.write_text(json.dumps(took))
    sys.exit(added > asked.most)


if __name__ == "__main__":
    main()
