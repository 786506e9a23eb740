"""The problems we ship: each loads, is sound, and has a naive seed that is right."""

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelarc_guard.check_problem import by_size, check_problem
from kernelarc_guard.dltensor import as_dltensor, load_function
from kernelarc_guard.dtypes import torch_dtype
from kernelarc_guard.inputs import make_inputs
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.solution import Solution, seed_solution
from kernelarc_guard.tolerance import compare

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
NAMES = ["causal_conv", "gemm_bf16", "matmul_residual", "rmsnorm", "softmax", "topk"]
DLPACK = Path(sysconfig.get_paths()["purelib"]) / "tvm_ffi" / "include"


def _seed(folder: Path, problem: Problem) -> Solution:
    seed = seed_solution(folder, problem.definition)
    assert seed is not None
    return seed


def test_the_library_holds_these_problems() -> None:
    assert sorted(folder.name for folder in KERNELS.iterdir() if folder.is_dir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_problem_loads_without_a_warning_and_is_sound(name: str) -> None:
    problem = read_problem(KERNELS / name)
    assert problem.warnings == []
    assert problem.definition.name == name
    assert problem.definition.operator_class != "other"
    assert len(problem.workloads) >= 3
    assert all(one.tolerance.required_matched_ratio == 1.0 for one in problem.workloads)
    assert check_problem(problem) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_problem_has_larger_workloads_for_gpus(name: str) -> None:
    small, large = read_problem(KERNELS / name), read_problem(KERNELS / name, "workload.gpu.jsonl")
    assert large.definition == small.definition
    assert not {one.uuid for one in small.workloads} & {one.uuid for one in large.workloads}


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_problem_describes_itself(name: str) -> None:
    text = (KERNELS / name / "README.md").read_text()
    operator_class = read_problem(KERNELS / name).definition.operator_class
    assert text.startswith(f"# {name}\n")
    for part in (f"Operator class | `{operator_class}`", "Bytes", "Operations", "makes it hard"):
        assert part in text


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_compiles_and_agrees_with_the_oracle(name: str, tmp_path: Path) -> None:
    problem = read_problem(KERNELS / name)
    seed = _seed(KERNELS / name, problem)
    assert (seed.binding, seed.spec.destination_passing_style) == ("dlpack", True)
    run = load_function(_compiled(seed, tmp_path), seed.entry_function)
    workload = by_size(problem)[0]
    inputs = make_inputs(problem.definition, workload, 2**40 + 3, folder=problem.folder)
    outputs = _outputs(problem, workload.axes)
    run(*[_described(value) for value in (*inputs.values(), *outputs.values())])
    expected = Oracle(problem).expected(workload, inputs)
    result = compare(outputs, expected, workload.tolerance, problem.definition)
    assert result.ok, result.detail


def test_the_rows_of_topk_hold_distinct_values() -> None:
    problem = read_problem(KERNELS / "topk")
    for workload in problem.workloads:
        x = make_inputs(problem.definition, workload, 5)["x"]
        assert isinstance(x, torch.Tensor)
        assert bool(x.isfinite().all())
        assert bool((x.sort(-1).values.diff(dim=-1) > 0).all())


def _compiled(seed: Solution, folder: Path) -> Path:
    for source in seed.sources:
        (folder / source.path).write_text(source.content)
    options = seed.spec.compile_options
    flags = options.cflags if options else []
    library = folder / "seed.so"
    subprocess.run(
        ["g++", "-std=c++17", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *flags]
        + ["-I", str(DLPACK), seed.entry_file, "-o", str(library)],
        cwd=folder,
        check=True,
        timeout=120,
    )
    return library


def _outputs(problem: Problem, axes: dict[str, int]) -> dict[str, torch.Tensor]:
    definition = problem.definition
    resolved = definition.resolve(axes)
    return {
        name: torch.full(
            definition.output_shape(name, resolved) or (), 77, dtype=torch_dtype(spec.dtype)
        )
        for name, spec in definition.outputs.items()
    }


def _described(value: Any) -> Any:
    return as_dltensor(value) if isinstance(value, torch.Tensor) else value
