"""What build slots take off a verdict: the same C++ candidates judged in a fleet without them and with them.

    python -m benchmarks.fleet_builders [--candidates 8] [--slots 1] [--out fleet_builders.json]

One real guard behind Ray judges candidates of `rmsnorm` one after the other, first with what it builds itself, then,
other candidates, with the next two in line sent to slots while one is judged, as a dispatcher does. Then as many again are
sent to the slots at once. Prints Markdown tables. Hosts, guard and slots share this machine, so slots take CPU from what
is judged here as they do not in a fleet.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import anyio

_TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(_TESTS)]

from fleets import Fleet, fleet_in  # noqa: E402

from kernelarc_guard.devices import default_parameters  # noqa: E402
from kernelarc_guard.entries import NATIVE  # noqa: E402
from kernelarc_guard.prepare import Prepare  # noqa: E402
from kernelarc_guard.problem import Problem, read_problem  # noqa: E402
from kernelarc_guard.protocol import Calibrate, Result, Screen  # noqa: E402
from kernelarc_guard.solution import (  # noqa: E402
    Solution,
    make_solution,
    reference_solution,
)
from kernelarc_mcp.data import data_dir  # noqa: E402
from kernelarc_mcp.host.fleet_client import FleetClient  # noqa: E402

_DEADLINE: Final = 600.0
_IN_LINE: Final = 2
_SOURCE: Final = """#include <algorithm>
#include <cmath>
#include <vector>
#include <dlpack/dlpack.h>

extern "C" int run(const DLTensor* x, const DLTensor* weight, DLTensor* y) {
  constexpr int64_t STEP = 8 + NUMBER;
  const int64_t n = x->shape[x->ndim - 1];
  const float* in = static_cast<const float*>(x->data);
  const float* w = static_cast<const float*>(weight->data);
  float* out = static_cast<float*>(y->data);
  int64_t rows = 1;
  for (int i = 0; i + 1 < x->ndim; ++i) rows *= x->shape[i];
  std::vector<double> parts(STEP);
  for (int64_t r = 0; r < rows; ++r, in += n, out += n) {
    std::fill(parts.begin(), parts.end(), 0.0);
    for (int64_t j = 0; j < n; ++j) parts[j % STEP] += double(in[j]) * in[j];
    double sum = 0;
    for (double part : parts) sum += part;
    const float factor = float(1.0 / std::sqrt(sum / n + 1e-6));
    for (int64_t j = 0; j < n; ++j) out[j] = in[j] * factor * w[j];
  }
  return 0;
}
"""


def candidate(problem: Problem, number: int) -> Solution:
    """Return a candidate in C++ that no other number shares."""
    spec = {"languages": ["cpp"], "entry_point": "k.cpp::run", "binding": "dlpack"}
    sources = [{"path": "k.cpp", "content": _SOURCE.replace("NUMBER", str(number))}]
    name = problem.definition.name
    return make_solution({"name": "k", "definition": name, "spec": spec, "sources": sources})


class Run:
    """One client's judgements, and what it sends ahead."""

    def __init__(self, client: FleetClient, cache: str) -> None:
        """Judge through `client`."""
        self.problem = read_problem(data_dir("kernels") / "rmsnorm")
        self._client = client
        self._sent: set[int] = set()
        parameters = default_parameters("cpu")
        record = reference_solution(self.problem.definition)
        self._shared: dict[str, Any] = {
            "cache_dir": cache,
            "problem": self.problem,
            "record": record,
            "parameters": parameters,
        }

    async def calibrate(self) -> None:
        """Measure the noise once, for all that follows."""
        calibrate = Calibrate(id="calibrate", **self._shared)
        result = await self._client.judge(calibrate, deadline=_DEADLINE)
        self._shared["calibration"] = result.calibration

    async def send(self, number: int) -> None:
        """Send a candidate ahead, once."""
        if number not in self._sent:
            self._sent.add(number)
            request = Prepare(
                id=f"s{number}",
                cache_dir=self._shared["cache_dir"],
                definition=self.problem.definition,
                candidate=candidate(self.problem, number),
            )
            assert await self._client.prepare(request)

    async def judge(self, number: int, ahead: range) -> tuple[float, Result]:
        """Return how long a screen took from its asking to its answer, and the answer."""
        request = Screen(
            id=f"s{number}-screen", candidate=candidate(self.problem, number), **self._shared
        )
        found: list[Result] = []
        began = time.perf_counter()

        async def ask() -> None:
            found.append(await self._client.judge(request, deadline=_DEADLINE))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while not self._client.busy:
                await anyio.sleep(0)
            for one in ahead:
                await self.send(one)
        return time.perf_counter() - began, found[0]


async def measure(fleet: Fleet, count: int, slots: int) -> dict[str, list[list[float]]]:
    """Return `[seconds, of these building]` of each judgement, and the seconds at which builds were there."""
    took: dict[str, list[list[float]]] = {"without": [], "with": [], "built": []}
    made = fleet.folder / "cache" / "builders" / "cache" / NATIVE
    async with FleetClient(fleet.standin(), fleet.folder / "standin.log") as client:
        run = Run(client, str(fleet.folder / "own"))
        while await client.wait_lanes(0) != 1:
            pass
        await run.calibrate()
        for who, first in (("without", 0), ("with", count)):
            if who == "with":
                fleet.add("builds", "--device", "none", "--builders", str(slots))
                fleet.wait_offered("builds")
                while sum(one.state == "ready" for one in client.builders) < slots:
                    await anyio.sleep(0.1)
            last = first + count
            for number in range(first, last):
                following = range(number + 1, min(number + 1 + _IN_LINE, last))
                ahead = following if who == "with" else range(0)
                seconds, result = await run.judge(number, ahead)
                assert result.reason is None or result.stage == "timing", result
                took[who].append([seconds, result.stages["build"].seconds])
        before, began = len(list(made.iterdir())), time.perf_counter()
        async with anyio.create_task_group() as group:
            group.start_soon(run.judge, 0, range(2 * count, 3 * count))
            while (there := len(list(made.iterdir())) - before) < count:
                if there > len(took["built"]):
                    took["built"].append([time.perf_counter() - began, float(there)])
                await anyio.sleep(0.01)
            took["built"].append([time.perf_counter() - began, float(there)])
    return took


def tables(took: dict[str, list[list[float]]], slots: int) -> str:
    """Return what was measured as Markdown."""
    lines = ["| | verdicts | seconds | of these building | share |", "|---|---|---|---|---|"]
    for who, name in (("without", "no slots"), ("with", f"{slots} slots, two in line sent")):
        all_of, building = (sum(one[at] for one in took[who]) for at in (0, 1))
        share = f"{100 * building / all_of:.1f} %"
        lines.append(f"| {name} | {len(took[who])} | {all_of:.1f} | {building:.2f} | {share} |")
    seconds, built = took["built"][-1]
    lines += ["", f"{built:.0f} builds sent to {slots} slots at once: {seconds:.1f} s, "]
    lines[-1] += f"{built / seconds:.2f} builds a second."
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--candidates", type=int, default=8, help="judged without and with slots")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON of every single time")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder)) as fleet:
        fleet.add("head", "--device", "cpu", "--guard-python", sys.executable, head=True)
        fleet.wait_offered("head")
        took = anyio.run(measure, fleet, asked.candidates, asked.slots)
    print(f"{os.cpu_count()} cores\n\n{tables(took, asked.slots)}")
    if asked.out:
        asked.out.write_text(json.dumps(took))


if __name__ == "__main__":
    main()
