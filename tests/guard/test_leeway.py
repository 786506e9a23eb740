"""Where other values than the workload's own cancel, an honest float32 sum passes and nothing else does."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from cancelling import FOUND, K, N, drawn, one_by_one, product
from cases import make_problem

from kernelarc_guard.backend import CpuBackend
from kernelarc_guard.bench import Bench
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule

Tensor = torch.Tensor
Kernel = Callable[[Tensor, Tensor, Tensor], Tensor]


def _bench(
    mode: str = "strict", tolerance: tuple[float, float] = (1e-5, 1e-4)
) -> tuple[Bench, list[str]]:
    checked = product(mode, tolerance)
    backend, said = CpuBackend(), list[str]()
    drawer = backend.drawer(checked, 0)
    bench = Bench(
        checked, Schedule(), Oracle(checked, backend.place), drawer, said.append, backend=backend
    )
    return bench, said


def _tf32(one: Tensor) -> Tensor:
    return ((one.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def _narrow_sums(x: Tensor, weight: Tensor, residual: Tensor) -> Tensor:
    parts = [x[:, k : k + 16] @ weight[k : k + 16] for k in range(0, K, 16)]
    return torch.stack([one.bfloat16().float() for one in parts]).sum(0) + residual


def _off_by_two_tolerances(x: Tensor, weight: Tensor, residual: Tensor) -> Tensor:
    exact = x.double() @ weight.double() + residual.double()
    return (exact + 2 * (1e-5 + 1e-4 * exact.abs())).float()


WRONG: dict[str, Kernel] = {
    "operands in bfloat16": lambda x, w, r: x.bfloat16().float() @ w.bfloat16().float() + r,
    "operands in TF32": lambda x, w, r: _tf32(x) @ _tf32(w) + r,
    "partial sums in bfloat16": _narrow_sums,
    "the last term left out": lambda x, w, r: x[:, :-1] @ w[:-1] + r,
    "what is unusual cut off": lambda x, w, r: x.clamp(-2, 2) @ w.clamp(-2, 2) + r.clamp(-2, 2),
    "every element off by two tolerances": _off_by_two_tolerances,
    "zeros": lambda x, w, r: torch.zeros_like(r),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("kind", "seed"), FOUND)
@pytest.mark.parametrize("mode", ["strict", "sol", "flashinfer"])
def test_a_plain_sum_passes_where_values_of_another_kind_cancel(
    kind: str, seed: int, mode: str
) -> None:
    bench, said = _bench(mode)
    draw = drawn(kind, seed)
    assert mode == "flashinfer" or bench.legal(0, draw)
    bench.check(0, {"y": one_by_one(*draw.tensors.values())}, draw)
    if mode == "strict":
        assert [one[:15] for one in said] == ["values_cancel: "]


@pytest.mark.parametrize(("kind", "seed"), FOUND)
def test_the_same_values_drawn_by_the_workload_itself_are_held_to_its_tolerance(
    kind: str, seed: int
) -> None:
    bench, said = _bench()
    draw = drawn(kind, seed, other=False)
    with pytest.raises(SolutionFault, match="off by"):
        bench.check(0, {"y": one_by_one(*draw.tensors.values())}, draw)
    assert said == []


@pytest.mark.parametrize(("kind", "seed"), FOUND)
@pytest.mark.parametrize("kernel", WRONG)
def test_what_is_wrong_is_wrong_on_those_values_too(kernel: str, kind: str, seed: int) -> None:
    bench, _ = _bench()
    draw = drawn(kind, seed)
    with pytest.raises(SolutionFault) as fault:
        bench.check(0, {"y": WRONG[kernel](*draw.tensors.values())}, draw)
    assert fault.value.reason == "wrong_result"


@pytest.mark.parametrize("seed", [8, 15, 21, 23])
def test_a_mode_that_admits_less_precision_admits_it_on_larger_values_too(seed: int) -> None:
    bench, _ = _bench("sol", (1e-2, 1e-2))
    draw = drawn("scaled", seed)
    assert bench.legal(0, draw)
    x, weight, residual = draw.tensors.values()
    outputs = {"y": _tf32(x) @ _tf32(weight) + residual}
    bench.check(0, outputs, draw)
    assert not bench.judge(0, outputs, replace(draw, other=False)).ok
    for kernel in ("the last term left out", "what is unusual cut off", "zeros"):
        assert not bench.judge(0, {"y": WRONG[kernel](x, weight, residual)}, draw).ok


def test_only_elements_that_cancel_may_be_off_by_more_than_the_tolerance() -> None:
    bench, _ = _bench()
    draw = drawn(*FOUND[0])
    answer = bench.answer(0, draw)
    exact, leeway = answer.expected["y"], answer.leeway()["y"]
    allowed = 1e-5 + 1e-4 * exact.abs()
    assert leeway.shape == exact.shape
    assert 1 <= int((leeway > allowed).sum()) <= exact.numel() // 4
    row, column = divmod(int((leeway / allowed).argmin()), N)
    off = exact.clone()
    off[row, column] += 1.5 * allowed[row, column]
    assert not bench.judge(0, {"y": off.float()}, draw).ok


def test_nothing_is_allowed_where_moved_inputs_give_no_number() -> None:
    f32 = "float32"
    body = "    return torch.where(x == 1.0, x, x / 0.0)\n"
    problem = Problem.model_validate(
        make_problem("exactly", {"x": (["n"], f32)}, ["n"], body, [{"n": 4}])
    )
    answer = Oracle(problem).answer(problem.workloads[0], {"x": torch.ones(4)})
    assert answer.leeway()["y"].tolist() == [0.0] * 4


def test_every_derived_draw_says_that_its_values_are_not_the_workloads_own() -> None:
    bench, _ = _bench()
    drawer = bench.drawer
    own = drawer.draw(0)
    derived = [drawer.derived(0, kind, statics=True) for kind in drawer.variety.kinds(0)]
    part = drawer.part(0, own, "rows")
    assert part is not None and not (own.other or part.other or drawer.rewritten(own).other)
    assert all(one.other for one in (*derived, drawer.spiked(0, "x")))
    again = [drawer.part(0, one, "rows") for one in derived]
    assert all(one.other for one in again if one is not None)
