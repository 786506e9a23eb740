"""How far honest float32 kernels and precision cheats are off, in units of what `strict` allows.

    python benchmarks/honest_error.py [--draws 3] [--out FILE]

Every way of computing is judged as the guard judges it, on the guard's own draws of every kind. A row of the table:
the largest error over kappa scales of the first look, then over those of the longer look with and without growth; 1.00
is the limit. "Beyond" is how many draws lie beyond the last, and beyond the workload's own tolerance. An honest way must
have none beyond the last that are within the workload's tolerance; a cheat needs one.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from kernelarc_guard.draws import Drawer
from kernelarc_guard.inputs import Value
from kernelarc_guard.oracle import Answer, Oracle
from kernelarc_guard.precision import Scales, kappa, row_length
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.workload import Workload

ROOT = Path(__file__).parents[1]
Tensor = torch.Tensor
_ONE_PASS = ", one pass"
Total = Callable[[Tensor], Tensor]
"""Sums float32 terms over the last dimension; takes float64 products where it has FMA."""


def lanes(count: int, fma: bool = False) -> Total:
    """Return a sum in so many accumulators, which are added one after the other at the end."""

    def total(terms: Tensor) -> Tensor:
        terms = terms if fma else terms.float()
        terms = torch.nn.functional.pad(terms, (0, -terms.shape[-1] % count))
        steps = terms.reshape(*terms.shape[:-1], -1, count).movedim(-2, 0).contiguous()
        sums = torch.zeros(steps.shape[1:])
        for step in steps:
            # The product is exact in float64: this rounds once, as an FMA does.
            sums = (sums.double() + step).float() if fma else sums + step
        out = sums[..., 0]
        for lane in range(1, count):
            out = out + sums[..., lane]
        return out

    return total


def pairwise(terms: Tensor) -> Tensor:
    """Add halves."""
    terms = terms.float()
    while terms.shape[-1] > 1:
        terms = torch.nn.functional.pad(terms, (0, terms.shape[-1] % 2))
        half = terms.shape[-1] // 2
        terms = terms[..., :half] + terms[..., half:]
    return terms[..., 0]


def narrow_sums(terms: Tensor) -> Tensor:
    """Add in 16 accumulators of bfloat16."""
    terms = torch.nn.functional.pad(terms.bfloat16(), (0, -terms.shape[-1] % 16))
    sums = torch.zeros(*terms.shape[:-1], 16, dtype=torch.bfloat16)
    for step in terms.reshape(*terms.shape[:-1], -1, 16).movedim(-2, 0):
        sums = sums + step
    return sums.float().sum(-1)


def narrow_partials(terms: Tensor) -> Tensor:
    """Add blocks of 256 in float32, round them to bfloat16 and add those."""
    terms = torch.nn.functional.pad(terms.float(), (0, -terms.shape[-1] % 256))
    return terms.reshape(*terms.shape[:-1], -1, 256).sum(-1).bfloat16().float().sum(-1)


def same(x: Tensor) -> Tensor:
    return x


def tf32(x: Tensor) -> Tensor:
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def int8(x: Tensor) -> Tensor:
    step = x.abs().amax().clamp_min(1e-30) / 127
    return (x / step).round() * step


@dataclass
class Way:
    """A way of computing: how inputs are rounded, terms added and functions approximated."""

    name: str
    honest: bool
    total: Total = pairwise
    round: Callable[[Tensor], Tensor] = same
    fma: bool = False
    exp: Callable[[Tensor], Tensor] = torch.exp
    rsqrt: Callable[[Tensor], Tensor] = torch.rsqrt

    def concerns(self, problem: str) -> bool:
        """Say whether it differs from the other ways there."""
        if self.exp is not torch.exp:
            return problem in ("softmax", "causal_conv")
        return self.rsqrt is torch.rsqrt or "norm" in problem


def _exp_2ulp(x: Tensor) -> Tensor:
    exact = torch.exp(x.double())
    return (exact * (1 + 2.0**-22 * (2 * torch.rand(x.shape) - 1).double())).float()


def _rsqrt_12(x: Tensor) -> Tensor:
    return (torch.rsqrt(x.double()) * (1 + 2.0**-12 * (2 * torch.rand(x.shape) - 1))).float()


def _rsqrt_newton(x: Tensor) -> Tensor:
    y = _rsqrt_12(x)
    return y * (1.5 - 0.5 * x * y * y)


WAYS = [
    *(Way(f"{n} lane{'s' * (n > 1)}", True, lanes(n)) for n in (1, 4, 8, 16, 32)),
    *(Way(f"{n} lane{'s' * (n > 1)}, FMA", True, lanes(n, fma=True), fma=True) for n in (1, 16)),
    Way("pairs", True),
    Way("exp to 2 ulp, 16 lanes", True, lanes(16), exp=_exp_2ulp),
    Way("rsqrt with a Newton step, 16 lanes", True, lanes(16), rsqrt=_rsqrt_newton),
    Way("inputs in bfloat16", False, round=lambda x: x.bfloat16().float()),
    Way("inputs in half", False, round=lambda x: x.half().float()),
    Way("inputs in TF32", False, round=tf32),
    Way("inputs in int8", False, round=int8),
    Way("sums in bfloat16", False, narrow_sums),
    Way("partial sums in bfloat16", False, narrow_partials),
    Way("rsqrt to 2^-12", False, rsqrt=_rsqrt_12),
]


def _product(way: Way, a: Tensor, b: Tensor) -> Tensor:
    return a.double() * b.double() if way.fma else a * b


def _rmsnorm(way: Way, x: Tensor, weight: Tensor) -> Tensor:
    mean = way.total(_product(way, x, x)).unsqueeze(-1) / x.shape[-1]
    return x * way.rsqrt(mean + 1e-6) * weight


def _softmax(way: Way, x: Tensor) -> Tensor:
    e = way.exp(x - x.amax(-1, keepdim=True))
    return e / way.total(e).unsqueeze(-1)


def _matmul(way: Way, x: Tensor, weight: Tensor, residual: Tensor) -> Tensor:
    return way.total(_product(way, x[:, None], weight.t()[None])) + residual


def _conv(way: Way, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    taps = weight.shape[-1]
    seen = torch.nn.functional.pad(x, (taps - 1, 0)).unfold(-1, taps, 1)
    z = way.total(_product(way, seen, weight[:, None])) + bias[:, None]
    return z / (1 + way.exp(-z))


def _topk(way: Way, x: Tensor) -> Tensor:
    return torch.topk(x, 8, dim=-1).values


def _sum(way: Way, x: Tensor) -> Tensor:
    return way.total(x)


def _mean(way: Way, x: Tensor) -> Tensor:
    return way.total(x) / x.shape[-1]


def _dot(way: Way, x: Tensor, z: Tensor) -> Tensor:
    return way.total(_product(way, x, z))


def _two_pass(way: Way, x: Tensor) -> Tensor:
    centred = x - _mean(way, x).unsqueeze(-1)
    return way.total(_product(way, centred, centred)) / x.shape[-1]


def _one_pass(way: Way, x: Tensor) -> Tensor:
    return way.total(_product(way, x, x)) / x.shape[-1] - _mean(way, x).square()


def _layernorm(way: Way, x: Tensor) -> Tensor:
    centred = x - _mean(way, x).unsqueeze(-1)
    spread = way.total(_product(way, centred, centred)).unsqueeze(-1) / x.shape[-1]
    return centred * way.rsqrt(spread + 1e-5)


def small(
    name: str, body: str, out: list[str], n: int, inputs: str = "x", rows: int = 8
) -> Problem:
    """Return a problem on `[rows, n]` inputs whose reference is one expression."""
    names = inputs.split()
    work = {"uuid": "w", "axes": {"r": rows, "n": n}}
    tolerance = {"max_atol": 1e-2, "max_rtol": 1e-2}
    return Problem.model_validate(
        {
            "definition": {
                "name": name,
                "axes": {"r": {"type": "var"}, "n": {"type": "var"}},
                "inputs": {one: {"shape": ["r", "n"], "dtype": "float32"} for one in names},
                "outputs": {"y": {"shape": out, "dtype": "float32"}},
                "reference": f"import torch\ndef run({', '.join(names)}):\n    return {body}\n",
            },
            "workloads": [work | {"tolerance": tolerance}],
        }
    )


BODIES: dict[str, Callable[..., Tensor]] = {
    "rmsnorm": _rmsnorm,
    "softmax": _softmax,
    "matmul": _matmul,
    "sum": _sum,
    "mean": _mean,
    "dot": _dot,
    "variance": _two_pass,
    "layernorm": _layernorm,
}
"""Computed in some way, from float32 tensors."""


def cases() -> list[tuple[Problem, dict[str, Callable[..., Tensor]]]]:
    """Return problems and the ways' bodies for them."""
    own: dict[str, Callable[..., Tensor]] = {
        "rmsnorm": _rmsnorm,
        "softmax": _softmax,
        "matmul_residual": _matmul,
        "causal_conv": _conv,
        "topk": _topk,
    }
    found: list[tuple[Problem, dict[str, Callable[..., Tensor]]]] = [
        (read_problem(ROOT / "kernels" / name), {name: body}) for name, body in own.items()
    ]
    for n in (1024, 16384):
        found += [
            (small(f"sum {n}", "x.sum(-1)", ["r"], n), {"": _sum}),
            (small(f"mean {n}", "x.mean(-1)", ["r"], n), {"": _mean}),
            (small(f"dot {n}", "(x * z).sum(-1)", ["r"], n, "x z"), {"": _dot}),
            (
                small(f"variance {n}", "x.var(-1, correction=0)", ["r"], n),
                {", two passes": _two_pass, _ONE_PASS: _one_pass},
            ),
            (
                small(
                    f"layernorm {n}",
                    "torch.nn.functional.layer_norm(x, x.shape[-1:])",
                    ["r", "n"],
                    n,
                ),
                {"": _layernorm},
            ),
        ]
    found.append((small("sum of all 262144", "x.sum()", [], 4096, rows=64), {"": _all}))
    return found


def _all(way: Way, x: Tensor) -> Tensor:
    return way.total(x.reshape(1, -1))[0]


@dataclass
class Seen:
    """The largest ratios over draws, and how many were beyond the limits."""

    first: list[float] = field(default_factory=list)
    second: list[float] = field(default_factory=list)
    grown: list[float] = field(default_factory=list)
    refused: int = 0
    outside: int = 0
    """Beyond the workload's own tolerance."""
    where: str = ""


def _ratio(error: Tensor, scales: Scales, name: str) -> float:
    limits = scales[name] * kappa(torch.float32)
    rows = error.reshape(-1, row_length(tuple(error.shape)))
    return float((rows / limits).nan_to_num(nan=0.0, posinf=0.0).max())


def _without_growth(
    oracle: Oracle, workload: Workload, inputs: Mapping[str, Value], answer: Answer
) -> Scales:
    generator = torch.Generator().manual_seed(0)
    return oracle._nudged(
        workload, inputs, answer.declared, answer.expected, answer.scales, generator
    )


def measure(
    problem: Problem, bodies: dict[str, Callable[..., Tensor]], draws: int, ways: list[Way]
) -> dict[tuple[str, str], Seen]:
    """Judge all ways on draws of every kind; returns what was seen by body and way."""
    oracle, drawer = Oracle(problem), Drawer(problem, 0)
    name = next(iter(problem.definition.outputs))
    table: dict[tuple[str, str], Seen] = {}
    for index, workload in enumerate(problem.workloads):
        for kind in ["own", *drawer.variety.kinds(index)]:
            for _ in range(draws):
                draw = (
                    drawer.fresh(index)
                    if kind == "own"
                    else drawer.derived(index, kind, statics=False)
                )
                answer = oracle.answer(workload, draw.inputs)
                wanted = answer.expected[name]
                if not bool(answer.declared[name].isfinite().all()):
                    continue
                near = _without_growth(oracle, workload, draw.inputs, answer)
                wide = answer.widen()
                tolerance = workload.tolerance
                bound = tolerance.max_atol + tolerance.max_rtol * wanted.abs()
                for label, body in bodies.items():
                    for way in ways:
                        inputs = [way.round(one) for one in draw.tensors.values()]
                        error = (body(way, *inputs).double() - wanted).abs()
                        if not bool(error.isfinite().all()):
                            continue
                        seen = table.setdefault((label, way.name), Seen())
                        seen.first.append(_ratio(error, answer.scales, name))
                        seen.second.append(_ratio(error, near, name))
                        ratio = _ratio(error, wide, name)
                        if ratio >= max(seen.grown, default=0.0):
                            seen.where = f"{kind}, {list(workload.axes.values())}"
                        seen.grown.append(ratio)
                        inside = bool((error <= bound).all())
                        seen.outside += not inside
                        seen.refused += ratio > 1 and inside
    return table


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=3, help="of each kind and workload")
    parser.add_argument("--only", default="", help="problems whose name has this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "| problem | way | honest | first look | longer look | with growth | where | draws |"
        " refused by strict alone | outside the tolerance |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    wrong = False
    for problem, bodies in cases():
        title = problem.definition.name
        if options.only not in title:
            continue
        honest = {way.name: way.honest for way in WAYS}
        for (label, way), seen in measure(
            problem, bodies, options.draws, [one for one in WAYS if one.concerns(title)]
        ).items():
            row = (
                f"| {title}{label if label.startswith(',') else ''} | {way} |"
                f" {'yes' if honest[way] else 'no'} | {max(seen.first):.2f} | {max(seen.second):.2f} |"
                f" {max(seen.grown):.2f} | {seen.where} | {len(seen.grown)} | {seen.refused} |"
                f" {seen.outside} |"
            )
            # One pass cancels on constant and shifted rows: in float32 that is no right answer.
            stable = label != _ONE_PASS
            wrong = wrong or (honest[way] and stable and seen.refused > 0)
            lines.append(row)
            print(row, flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
