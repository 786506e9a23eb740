"""On a GPU: the line to beat `cuBLASLt autotuned` is right, and no slower than what torch asks cuBLAS for."""

import importlib.util
from pathlib import Path

import pytest
from gpu_guard import GpuGuard
from product_definitions import PRODUCTS, define

from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.solution import read_solution, reference_solution
from kernelarc_guard.workload import Workload
from kernelarc_mcp.host.products import tuned_product

pytestmark = [
    pytest.mark.needs_gpu,
    pytest.mark.skipif(
        importlib.util.find_spec("nvmath") is None, reason="nvmath-python is not installed"
    ),
]

FOLDER = Path(__file__).parent.parent.parent / "kernels" / "gemm_bf16"
SIZES = {"b": 3, "s": 96, "m": 384, "n": 520, "k": 648}
DTYPES = {
    "mk nk mn": "float16",
    "km kn mn": "bfloat16",
    "mk kn nm": "float32",
    "bmk bnk bmn": "bfloat16",
    "bsk nk bsn": "float32",
}


@pytest.mark.parametrize("axes", DTYPES)
def test_a_product_in_each_layout_is_right(guard: GpuGuard, axes: str) -> None:
    assert axes in PRODUCTS
    definition = define(axes, " ".join([DTYPES[axes]] * 3))
    lengths = {axis: SIZES[axis] for axis in definition.axes}
    problem = Problem(definition=definition, workloads=[Workload(uuid="w", axes=lengths)])
    tuned = tuned_product(definition, "tuned")
    assert tuned is not None
    record = reference_solution(definition)
    result = guard.against("screen", problem, record, tuned, correctness_only=True)
    assert (result.verdict, result.stages["correctness"].state) == (None, "passed"), result.detail


def test_a_large_product_is_no_slower_than_torchs(guard: GpuGuard) -> None:
    whole = read_problem(FOLDER, "workload.gpu.jsonl")
    problem = whole.model_copy(update={"workloads": whole.workloads[:1]})
    record = read_solution(FOLDER / "solutions" / "cublas.py", problem.definition)
    tuned = tuned_product(problem.definition, "tuned")
    assert tuned is not None
    result = guard.against("compare", problem, record, tuned, pairs=3)
    assert result.verdict is None, result.detail
    assert not any("calls_awake" in seen for seen in result.observations)
    measured = result.workloads[0]
    assert measured.candidate_us is not None and measured.record_us is not None
    assert measured.candidate_us < 1.1 * measured.record_us
