"""The problems we ship: each loads, is sound, describes itself, and has seeds that are right."""

import importlib.util
import math
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kernelarc_guard.check_problem import by_size, check_problem
from kernelarc_guard.dltensor import as_dltensor, load_function
from kernelarc_guard.dtypes import stored_shape, torch_dtype
from kernelarc_guard.inputs import make_inputs
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.policy import examine
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.room import room_for
from kernelarc_guard.solution import Solution, seed_solution
from kernelarc_guard.tolerance import compare
from kernelarc_mcp.host.lenses import eligible_lenses, load_eligibility
from kernelarc_mcp.library import known_problems, runs_on, solutions_of

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"
NAMES = sorted(path.parent.name for path in KERNELS.glob("*/definition.json"))
DLPACK = Path(sysconfig.get_paths()["purelib"]) / "tvm_ffi" / "include"
PARTS = ("Operator class | `{}`", "Bytes |", "Operations |", "an H200 |", "makes it hard")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads, and on a busy machine threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_problem_loads_without_a_warning_and_is_sound(name: str) -> None:
    problem = read_problem(KERNELS / name)
    assert problem.warnings == []
    assert problem.definition.name == name
    assert len(problem.workloads) >= 3
    exact = problem.definition.kernelarc.oracle == "float64"
    assert not exact or all(w.tolerance.required_matched_ratio == 1.0 for w in problem.workloads)
    assert check_problem(problem) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_problem_has_larger_workloads_for_gpus_that_fit_where_it_says(name: str) -> None:
    small = read_problem(KERNELS / name)
    seen = {one.uuid for one in small.workloads}
    files = sorted(path.name for path in (KERNELS / name).glob("workload.gpu*.jsonl"))
    known = known_problems(KERNELS)[name]
    assert files == sorted(known.memory) and "workload.gpu.jsonl" in files
    for file in files:
        large = read_problem(KERNELS / name, file)
        assert large.definition == small.definition
        assert not seen & {one.uuid for one in large.workloads}
        seen |= {one.uuid for one in large.workloads}
        need = room_for(large, 1 << 50, 2).need
        assert math.ceil(need / (1 << 30)) == known.memory[file]


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_problem_describes_itself_and_every_solution_of_it(name: str) -> None:
    text = (KERNELS / name / "README.md").read_text()
    definition = read_problem(KERNELS / name).definition
    assert text.startswith(f"# {name}\n")
    for part in PARTS:
        assert part.format(definition.operator_class) in text
    for file, solution in solutions_of(KERNELS / name, definition).items():
        assert any(f"`{one}`" in text for one in (file, solution.entry_file)), file


@pytest.mark.parametrize("name", NAMES)
def test_lenses_are_ordered_for_the_class_of_a_shipped_problem(name: str) -> None:
    operator_class = read_problem(KERNELS / name).definition.operator_class
    assert load_eligibility(ROOT / "strategies").class_of(operator_class) != "other"
    for device in ("cpu", "cuda:0"):
        assert len(eligible_lenses(operator_class, device)) >= 4


@pytest.mark.parametrize("name", NAMES)
def test_every_solution_of_a_shipped_problem_can_be_read_and_is_allowed(name: str) -> None:
    folder = KERNELS / name
    definition = read_problem(folder).definition
    for file, solution in solutions_of(folder, definition).items():
        assert examine(solution, definition).findings == [], file
        assert runs_on(solution, "cpu") or runs_on(solution, "cuda:0"), file
    for device in ("cpu", "cuda:0"):
        seed = seed_solution(folder, definition, device)
        assert seed is not None and runs_on(seed, device)


def test_the_library_says_of_every_problem_how_far_it_has_come() -> None:
    assert sorted(known_problems(KERNELS)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_agrees_with_the_oracle(name: str, tmp_path: Path) -> None:
    problem = read_problem(KERNELS / name)
    seed = seed_solution(KERNELS / name, problem.definition)
    assert seed is not None and seed.spec.destination_passing_style
    workload = by_size(problem)[0]
    inputs = make_inputs(problem.definition, workload, 2**40 + 3, folder=problem.folder)
    outputs = _outputs(problem, workload.axes)
    if seed.is_native:
        run = load_function(_compiled(seed, tmp_path), seed.entry_function)
        run(*[_described(value) for value in (*inputs.values(), *outputs.values())])
    else:
        with torch.no_grad():
            _loaded(seed, tmp_path).run(*inputs.values(), *outputs.values())
    answer = Oracle(problem).answer(workload, inputs)
    terms = outputs, answer.expected, workload.tolerance, problem.definition
    result = compare(*terms, scales=answer.scales)
    if not result.ok:
        result = compare(*terms, scales=answer.widen())
    assert result.ok, result.detail


def test_the_rows_of_topk_hold_distinct_values() -> None:
    problem = read_problem(KERNELS / "topk")
    for workload in problem.workloads:
        x = make_inputs(problem.definition, workload, 5)["x"]
        assert isinstance(x, torch.Tensor)
        assert bool(x.isfinite().all())
        assert bool((x.sort(-1).values.diff(dim=-1) > 0).all())


def test_paged_prefill_draws_queries_that_see_no_key_and_others() -> None:
    problem = read_problem(KERNELS / "paged_gqa_prefill")
    fewer = next(
        one for one in problem.workloads if one.axes["num_kv_indices"] < one.axes["total_q"]
    )
    lse = Oracle(problem).expected(fewer, make_inputs(problem.definition, fewer, 5))["lse"]
    empty = (lse == -math.inf).all(dim=-1)
    assert bool(empty.any()) and not bool(empty.all())


def test_the_mixture_of_experts_draws_experts_without_tokens() -> None:
    problem = read_problem(KERNELS / "moe_backward")
    few = min(problem.workloads, key=lambda one: one.axes["tokens"])
    drawn = [make_inputs(problem.definition, few, seed)["expert_ids"] for seed in range(8)]
    used = [set(ids.flatten().tolist()) for ids in drawn if isinstance(ids, torch.Tensor)]
    assert min(map(len, used)) < few.axes["experts"]


def _loaded(seed: Solution, folder: Path) -> ModuleType:
    path = folder / seed.entry_file
    path.write_text(seed.sources[0].content)
    spec = importlib.util.spec_from_file_location(f"seed_of_{seed.definition}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
            stored_shape(spec, definition.output_shape(name, resolved) or ()),
            77,
            dtype=torch_dtype(spec.dtype),
        )
        for name, spec in definition.outputs.items()
    }


def _described(value: Any) -> Any:
    return as_dltensor(value) if isinstance(value, torch.Tensor) else value
