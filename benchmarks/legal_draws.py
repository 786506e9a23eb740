"""How often one plain float32 accumulator is beyond the tolerance on draws that the guard calls legal.

    python -m benchmarks.legal_draws [--problem FOLDER] [--seconds 120]

For a problem with inputs `x`, `weight`, `residual` and output `y = x @ weight + residual`. Draws of each kind are
made as the guard makes them and kept where it would (the reference within a quarter of the workload's tolerance).
The accumulator adds the products one after the other, each with one rounding, as a loop of FMAs does. A row for each
kind: draws, how many were legal, the accumulator's largest error on legal ones over what the tolerance allows,
and how many were beyond it.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem, read_problem

_PROBLEM = Path(__file__).parent / "problems" / "small_matmul"
_LEGAL = 0.25
"""Share of the tolerance within which the reference must be, as in `kernelarc_guard.bench`."""


@dataclass
class Seen:
    """What was seen of one kind of draw."""

    draws: int = 0
    legal: int = 0
    worst: float = 0.0
    beyond: int = 0


def accumulated(x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Return x @ weight + residual, `[m, n]` float32, added term by term."""
    total = residual.clone()
    left, right = x.double(), weight.double()
    for k in range(x.shape[1]):
        # The product is exact in float64: this rounds once, as an FMA does.
        total = (total.double() + left[:, k : k + 1] * right[k : k + 1]).float()
    return total


def look(oracle: Oracle, problem: Problem, draw: Draw, seen: Seen) -> None:
    """Count one draw of the first workload."""
    workload = problem.workloads[0]
    tolerance = workload.tolerance
    answer = oracle.answer(workload, draw.inputs)
    wanted = answer.expected["y"]
    bound = tolerance.max_atol + tolerance.max_rtol * wanted.abs()

    def share(y: torch.Tensor) -> float:
        return float(((y.double() - wanted).abs() / bound).max())

    seen.draws += 1
    if share(answer.declared["y"]) > _LEGAL:
        return
    inputs = draw.tensors
    found = share(accumulated(inputs["x"], inputs["weight"], inputs["residual"]))
    seen.legal += 1
    seen.worst = max(seen.worst, found)
    seen.beyond += found > 1


def main() -> None:
    """Draw until the time is over; print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--problem", type=Path, default=_PROBLEM)
    parser.add_argument("--seconds", type=float, default=120.0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    problem = read_problem(asked.problem)
    oracle, drawer = Oracle(problem), Drawer(problem, 0)
    table: dict[str, Seen] = {}
    end = time.monotonic() + asked.seconds
    while time.monotonic() < end:
        look(oracle, problem, drawer.fresh(0), table.setdefault("own", Seen()))
        for name in ("x", "weight", "residual"):
            seen = table.setdefault(f"spikes in {name}", Seen())
            look(oracle, problem, drawer.spiked(0, name), seen)
        for kind in drawer.variety.kinds(0):
            draw = drawer.derived(0, kind, statics=True)
            look(oracle, problem, draw, table.setdefault(kind, Seen()))
    print("| values | draws | legal | largest error over the tolerance, of legal ones | beyond |")
    print("|---|---|---|---|---|")
    for name, seen in table.items():
        print(f"| {name} | {seen.draws} | {seen.legal} | {seen.worst:.3f} | {seen.beyond} |")


if __name__ == "__main__":
    main()
