"""Whether an honest float32 kernel is ever refused on a draw that the guard calls legal.

    python -m benchmarks.legal_draws [--seconds 240] [--seed 1] [--only NAME] [--keep-tolerance]
    python -m benchmarks.legal_draws --kinds [--draws 12]

Draws of each kind are made as the guard makes them, from numbered seeds, and kept where it would. Honest ways of
computing are judged on each as the guard judges them. A row for each problem and kind: draws, how many were legal,
on how many some honest way was beyond what would be allowed without leeway (see `kernelarc_guard.leeway`), the
largest error there over what is allowed with it, and on how many one was refused. Whoever is refused is printed with
its seed. `--keep-tolerance` has no leeway. `--kinds` counts which kinds of values the shipped problems' references
bear.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

import torch

from benchmarks.honest_error import BODIES, Tensor, Total, Way, lanes, pairwise, small
from kernelarc_guard import draws, variety
from kernelarc_guard.bench import Bench
from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.precision import kappa, row_length
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.protocol import Schedule

ROOT = Path(__file__).parents[1]
Body = Callable[..., dict[str, Tensor]]


def backwards(total: Total) -> Total:
    """Return a sum that begins at the other end."""
    return lambda terms: total(terms.flip(-1))


def blocks(many: int) -> Total:
    """Return a sum in so many blocks, each one after the other, whose sums are added (split-K)."""

    def total(terms: Tensor) -> Tensor:
        terms = torch.nn.functional.pad(terms, (0, -terms.shape[-1] % many))
        parts = terms.reshape(*terms.shape[:-1], many, -1)
        return lanes(1)(lanes(1)(parts))

    return total


def from_first(terms: Tensor, first: Tensor) -> Tensor:
    """Add float64 products to what is there already, each with one rounding, as a fused epilogue does."""
    sums = first.clone()
    for term in terms.unbind(-1):
        sums = (sums.double() + term).float()
    return sums


WAYS = [
    Way("one by one", True, lanes(1)),
    Way("one by one, FMA", True, lanes(1, fma=True), fma=True),
    Way("one by one, from the end", True, backwards(lanes(1))),
    Way("16 lanes", True, lanes(16)),
    Way("4 blocks", True, blocks(4)),
    Way("pairs", True, pairwise),
]
FUSED = "fused"


@dataclass(frozen=True)
class Case:
    """A problem of one workload, and how to compute it in some way."""

    problem: Problem
    body: Body
    more: tuple[str, ...] = ()
    """Ways of its own, which its body knows by name."""


def plain(body: Callable[..., Tensor]) -> Body:
    """Return a body of one output, `y`."""
    return lambda way, *inputs: {"y": body(way, *inputs)}


def product(way: Way, x: Tensor, weight: Tensor, residual: Tensor) -> dict[str, Tensor]:
    """Return x @ weight + residual; fused, the residual is where the sum begins."""
    if way.name == FUSED:
        terms = x.double()[:, None] * weight.double().t()[None]
        return {"y": from_first(terms, residual)}
    return {"y": BODIES["matmul"](way, x, weight, residual)}


def narrow_product(way: Way, a: Tensor, b: Tensor) -> dict[str, Tensor]:
    """Return a @ b, rounded once."""
    y = BODIES["matmul"](way, a.float(), b.float(), torch.zeros(()))
    return {"c": y.to(a.dtype)}


def projection(way: Way, x: Tensor, residual: Tensor, weight: Tensor) -> dict[str, Tensor]:
    """Return x @ weight.T + residual, rounded twice as the reference does; fused, once."""
    y = BODIES["matmul"](way, x.flatten(0, 1).float(), weight.float().t(), torch.zeros(()))
    y = y.reshape(residual.shape)
    y = y if way.name == FUSED else y.to(x.dtype).float()
    return {"output": (y + residual.float()).to(x.dtype)}


def added_norm(way: Way, x: Tensor, residual: Tensor, weight: Tensor) -> dict[str, Tensor]:
    """Return the normed sum and the sum; fused, the norm is of the sum before it is rounded."""
    wide = x.float() + residual.float()
    total = wide.to(x.dtype)
    wide = wide if way.name == FUSED else total.float()
    y = BODIES["rmsnorm"](way, wide, weight.float())
    return dict(zip(("y", "total"), (y.to(x.dtype), total), strict=True))


def gated(way: Way, gate_up: Tensor) -> dict[str, Tensor]:
    """Return silu(gate) * up, rounded as the reference does; fused, once."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    middle = gate / (1 + torch.exp(-gate))
    middle = middle if way.name == FUSED else middle.to(gate_up.dtype).float()
    return {"y": (middle * up).to(gate_up.dtype)}


def cases() -> Iterator[Case]:
    """Yield what is tried, as small as it can be."""
    for m, k, n in ((24, 64, 32), (8, 256, 24)):
        folder = Path(__file__).parent / "problems" / "small_matmul"
        yield Case(resized(folder, m=m, k=k, n=n), product, (FUSED,))
    for n in (64, 1024):
        for name, body, out in (
            ("sum", "x.sum(-1)", ["r"]),
            ("mean", "x.mean(-1)", ["r"]),
            ("variance", "x.var(-1, correction=0)", ["r"]),
            ("softmax", "torch.softmax(x, -1)", ["r", "n"]),
            ("layernorm", "torch.nn.functional.layer_norm(x, x.shape[-1:])", ["r", "n"]),
        ):
            yield Case(tight(small(f"{name} {n}", body, out, n)), plain(BODIES[name]))
        dot = small(f"dot {n}", "(x * z).sum(-1)", ["r"], n, "x z")
        yield Case(tight(dot), plain(BODIES["dot"]))
        unit = "x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * z"
        norm = small(f"rmsnorm {n}", unit, ["r", "n"], n, "x z")
        yield Case(tight(norm), plain(BODIES["rmsnorm"]))
    kernels = ROOT / "kernels"
    gemm = resized(kernels / "gemm_bf16", m=8, k=64, n=32)
    yield Case(gemm, narrow_product)
    projected = resized(kernels / "attn_out_proj_residual", batch_size=1, seq_len=4, hidden_size=64)
    yield Case(projected, projection, (FUSED,))
    yield Case(resized(kernels / "fused_add_rmsnorm", rows=4, hidden=64), added_norm, (FUSED,))
    yield Case(resized(kernels / "swiglu", tokens=4, intermediate=64), gated, (FUSED,))


def tight(problem: Problem) -> Problem:
    """Return a problem with the tolerance that the shipped ones in float32 have."""
    [workload] = problem.workloads
    tolerance = workload.tolerance.model_copy(update={"max_atol": 1e-5, "max_rtol": 1e-4})
    tolerated = workload.model_copy(update={"tolerance": tolerance})
    return problem.model_copy(update={"workloads": [tolerated]})


def resized(folder: Path, **axes: int) -> Problem:
    """Return a problem with its first workload alone, in another size."""
    problem = read_problem(folder)
    sized = problem.workloads[0].model_copy(update={"axes": axes})
    size = "x".join(map(str, axes.values()))
    named = problem.definition.model_copy(update={"name": f"{problem.definition.name} {size}"})
    return problem.model_copy(update={"workloads": [sized], "definition": named})


class Numbered:
    """Stands in for `secrets`, so that a draw can be made again."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def randbits(self, bits: int) -> int:
        """Return a number of so many bits."""
        return self._random.getrandbits(bits)

    def randbelow(self, end: int) -> int:
        """Return a number below another."""
        return self._random.randrange(end)


@contextmanager
def numbered(seed: int) -> Iterator[None]:
    """Draw from a seed inside."""
    secrets = Numbered(seed)
    with patch.object(draws, "secrets", secrets), patch.object(variety, "secrets", secrets):
        yield


@dataclass
class Seen:
    """What was seen of one kind of draw."""

    draws: int = 0
    legal: int = 0
    beyond: int = 0
    worst: float = 0.0
    refused: int = 0


class Look:
    """One case, its bench, and what was seen of it by kind."""

    def __init__(self, case: Case, leeway: bool) -> None:
        self.case = case
        self.leeway = leeway
        problem = case.problem
        self.bench = Bench(
            problem, Schedule(), Oracle(problem), Drawer(problem, 0), lambda seen: None
        )
        self.seen: dict[str, Seen] = {}
        self.ways = [*WAYS, *(replace(WAYS[0], name=name) for name in case.more)]

    def draws(self, seed: int) -> Iterator[tuple[str, Draw]]:
        """Yield a draw of each kind."""
        drawer, workload = self.bench.drawer, 0
        kinds = drawer.variety.kinds(workload)
        for kind in kinds:
            with numbered(seed):
                draw = drawer.derived(workload, kind, statics=True)
            yield kind, draw
        for name in drawer.order if "spiked" in kinds else ():
            with numbered(seed):
                draw = drawer.spiked(workload, name)
            yield f"spikes in {name}", draw

    def look(self, seed: int) -> None:
        """Judge all honest ways on draws of one seed."""
        bench, workload = self.bench, 0
        for kind, draw in self.draws(seed):
            seen = self.seen.setdefault(kind, Seen())
            seen.draws += 1
            if not bench.legal(workload, draw):
                continue
            seen.legal += 1
            held = replace(draw, other=False)
            late: list[tuple[str, dict[str, Tensor]]] = []
            for way in self.ways:
                outputs = self.case.body(way, *draw.tensors.values())
                if not bench.judge(workload, outputs, held).ok:
                    late.append((way.name, outputs))
            seen.beyond += bool(late)
            refused = False
            for name, outputs in late:
                seen.worst = max(seen.worst, self.share(outputs, draw))
                result = bench.judge(workload, outputs, draw if self.leeway else held)
                if not result.ok:
                    refused = True
                    print(f"{self.name}, {kind}, seed {seed}, {name}: {result.detail}", flush=True)
            seen.refused += refused

    def share(self, outputs: dict[str, Tensor], draw: Draw) -> float:
        """Return the largest error over what is allowed with leeway."""
        answer = self.bench.answer(0, draw)
        tolerance = self.case.problem.workloads[0].tolerance
        leeway, scales = answer.leeway(), answer.widen()
        most = 0.0
        for name, one in outputs.items():
            wanted = answer.expected[name]
            bound = tolerance.max_atol + tolerance.max_rtol * wanted.abs()
            bound = torch.maximum(bound, leeway[name])
            rows = bound.reshape(-1, row_length(tuple(bound.shape)))
            bound = torch.minimum(rows, scales[name] * kappa(one.dtype)).reshape(bound.shape)
            most = max(most, float(((one.double() - wanted).abs() / bound).nan_to_num_(0.0).max()))
        return most

    @property
    def name(self) -> str:
        """Return the problem's name."""
        return self.case.problem.definition.name


def at_most(refused: int, of: int) -> float:
    """Return the exact upper bound, with 95 % confidence, of how often (Clopper and Pearson)."""
    if not of:
        return 1.0
    from scipy.stats import beta

    return 1.0 if refused == of else float(beta.ppf(0.95, refused + 1, of - refused))


def count_refusals(options: argparse.Namespace) -> None:
    """Draw until the time is over; print the table."""
    looks = [
        Look(case, not options.keep_tolerance)
        for case in cases()
        if options.only in case.problem.definition.name
    ]
    end = time.monotonic() + options.seconds
    spent = dict.fromkeys(range(len(looks)), 0.0)
    seeds = [count(options.seed * 1_000_000) for _ in looks]
    while (begin := time.monotonic()) < end:
        # The one that had least time: what is slow must not leave the others without draws.
        at = min(spent, key=lambda one: spent[one])
        looks[at].look(next(seeds[at]))
        spent[at] += time.monotonic() - begin
    print("| problem | values | draws | legal | beyond without leeway | over allowed | refused |")
    print("|---|---|---|---|---|---|---|")
    for look in looks:
        for kind, seen in look.seen.items():
            share = f"{seen.worst:.3f}" if seen.beyond else ""
            print(
                f"| {look.name} | {kind} | {seen.draws} | {seen.legal} | {seen.beyond} | {share} |"
                f" {seen.refused} |"
            )
    all_seen = [seen for look in looks for seen in look.seen.values()]
    legal, beyond = sum(s.legal for s in all_seen), sum(s.beyond for s in all_seen)
    refused = sum(s.refused for s in all_seen)
    ways = len(WAYS)
    print(
        f"\n{sum(s.draws for s in all_seen):,} draws, {legal:,} legal, at least {ways} honest ways on each:"
        f" beyond without leeway on {beyond}, refused on {refused} (with 95 % confidence on at most"
        f" {at_most(refused, legal):.2e} of legal draws)"
    )
    sys.exit(1 if refused and not options.keep_tolerance else 0)


def count_kinds(options: argparse.Namespace) -> None:
    """Print how many draws of each kind are legal for the shipped problems."""
    print("| problem | kind | legal draws of so many, by workload | given up on |")
    print("|---|---|---|---|")
    for path in sorted((ROOT / "kernels").glob("*/definition.json")):
        problem = read_problem(path.parent)
        drawer = Drawer(problem, 0)
        bench = Bench(problem, Schedule(), Oracle(problem), drawer, lambda seen: None)
        kinds = sorted({kind for w in drawer.indices for kind in drawer.variety.kinds(w)})
        if not kinds:
            print(f"| {path.parent.name} | none: values of its own generator | | |", flush=True)
        for kind in kinds:
            legal = {}
            for w in drawer.indices:
                if kind in drawer.variety.kinds(w):
                    drawn = [drawer.derived(w, kind, bool(i % 2)) for i in range(options.draws)]
                    legal[w] = sum(bench.legal(w, draw) for draw in drawn)
            told = ", ".join(f"{one}/{options.draws}" for one in legal.values())
            lost = ", ".join(str(w + 1) for w, one in legal.items() if not one)
            print(f"| {path.parent.name} | {kind} | {told} | {lost} |", flush=True)


def main() -> None:
    """Count what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="problems whose name has this")
    parser.add_argument("--keep-tolerance", action="store_true")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--draws", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.kinds:
        count_kinds(options)
    else:
        count_refusals(options)


if __name__ == "__main__":
    main()
