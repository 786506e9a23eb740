"""Families for GPUs: Triton runs in its interpreter, CUDA C++ is compiled, both where they are there."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from kernelfamilies.catalogue import GPU_FAMILIES, family_for
from kernelfamilies.family import Interface, Point, read_header, render

from kernelarc_guard.cuda.nvcc import find_nvcc
from kernelarc_guard.fingerprint import normalised_digest, shingle_similarity
from kernelarc_guard.policy import examine
from kernelarc_guard.problem import read_problem
from kernelarc_guard.solution import SourceFile, read_solution
from kernelarc_guard.toolchain import find_toolchain
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.lenses import eligible_lenses

RMSNORM = GPU_FAMILIES["rmsnorm"][0]
INTERFACE = Interface(
    inputs=("x", "weight"),
    outputs=("y",),
    reference=read_problem(data_dir("kernels") / "rmsnorm").definition.reference,
)
WRONG = {("sum", "half"), ("mask", "dropped"), ("align", "assumed")}
"""Values that run and give wrong answers."""
BROKEN = {("math", "fast"), ("vector", "8")}
"""Values that no compiler takes."""
_INTERPRETED = """
import importlib.util, json, os, sys
from types import SimpleNamespace

os.environ["TRITON_INTERPRET"] = "1"
import torch

torch.cuda.get_device_properties = lambda device: SimpleNamespace(multi_processor_count=2)
found = {}
for path in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    off = 0.0
    for rows, hidden in ((5, 100), (3, 257)):
        x, weight, y = torch.randn(rows, hidden), torch.randn(hidden), torch.zeros(rows, hidden)
        module.run(x, weight, y)
        double = x.double()
        expected = double * (double.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.double()
        off = max(off, (y.double() - expected).abs().max().item())
    found[path] = off
print(json.dumps(found))
"""


def covering(axes: dict[str, tuple[str, ...]]) -> Iterator[Point]:
    """Yield a few points in which every value of every axis occurs."""
    for number in range(max(map(len, axes.values()))):
        yield {axis: values[number % len(values)] for axis, values in axes.items()}


def sound(point: Point) -> Point:
    """Return the point without the values that are not meant to work."""
    return {axis: value for axis, value in point.items() if (axis, value) not in WRONG | BROKEN}


def points(dsl: str) -> list[Any]:
    """Return points of all algorithms in a DSL that are meant to be right."""
    found = []
    for algorithm in RMSNORM.algorithms.values():
        if algorithm.dsl == dsl:
            tried = [algorithm.start, *covering(dict(algorithm.axes))]
            distinct = {
                tuple(sorted(RMSNORM.point(algorithm.name, sound(one)).items())) for one in tried
            }
            found += [
                pytest.param(algorithm.name, dict(point), id=f"{algorithm.name}-{n}")
                for n, point in enumerate(sorted(distinct))
            ]
    return found


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_triton_kernels_are_right_on_awkward_rows(tmp_path: Path) -> None:
    paths = {}
    for number, one in enumerate(points("triton")):
        algorithm, point = one.values
        path = tmp_path / f"kernel{number}.py"
        path.write_text(render(RMSNORM, algorithm, point, INTERFACE).source)
        paths[str(path)] = one.id
    done = subprocess.run(
        [sys.executable, "-c", _INTERPRETED, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    off = {paths[path]: error for path, error in json.loads(done.stdout).items()}
    assert max(off.values()) < 1e-5, off


def compiled(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile CUDA C++ as the guard does, without optimising it."""
    nvcc, toolchain = find_nvcc(), find_toolchain()
    if nvcc is None or toolchain is None or toolchain.include is None:
        pytest.skip("needs nvcc and tvm-ffi's headers")
    (folder / "kernel.cu").write_text(source)
    command = [nvcc.program, "-gencode=arch=compute_90a,code=sm_90a", "-std=c++17", "-O0"]
    command += [f"-I{toolchain.include}", "-c", str(folder / "kernel.cu"), "-o", "/dev/null"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(("algorithm", "point"), points("cuda"))
def test_cuda_kernels_compile(algorithm: str, point: Point, tmp_path: Path) -> None:
    done = compiled(render(RMSNORM, algorithm, point, INTERFACE).source, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_vector_type_that_does_not_exist_is_a_compiler_error(tmp_path: Path) -> None:
    point = RMSNORM.point("cuda-block", {"vector": "8"})
    done = compiled(render(RMSNORM, "cuda-block", point, INTERFACE).source, tmp_path)
    assert done.returncode != 0 and "float8" in done.stdout + done.stderr


@pytest.mark.parametrize("name", RMSNORM.algorithms)
def test_the_policy_has_nothing_against_a_kernel(name: str, tmp_path: Path) -> None:
    definition = read_problem(data_dir("kernels") / "rmsnorm").definition
    candidate = render(RMSNORM, name, RMSNORM.algorithms[name].start, INTERFACE)
    path = tmp_path / candidate.filename
    path.write_text(candidate.source)
    assert examine(read_solution(path, definition), definition).findings == []


def test_other_comments_are_the_same_code() -> None:
    for name, algorithm in RMSNORM.algorithms.items():
        if "notes" in algorithm.axes:
            plain, noted = (
                render(RMSNORM, name, RMSNORM.point(name, {"notes": notes}), INTERFACE)
                for notes in ("none", "many")
            )
            assert plain.source.partition("\n")[2] != noted.source.partition("\n")[2]
            digests = {
                normalised_digest([SourceFile(path=one.filename, content=one.source)])
                for one in (plain, noted)
            }
            assert len(digests) == 1


def test_another_algorithm_is_never_a_light_edit() -> None:
    sources = [
        [SourceFile(path=c.filename, content=c.source)]
        for algorithm in RMSNORM.algorithms.values()
        for c in [render(RMSNORM, algorithm.name, algorithm.start, INTERFACE)]
    ]
    assert all(shingle_similarity(a, b) < 0.8 for a, b in combinations(sources, 2))


def test_every_lens_of_the_operator_class_has_a_plan_of_what_the_family_has() -> None:
    assert set(eligible_lenses("normalization", "cuda:0")) <= set(RMSNORM.plans)
    for plan in [*RMSNORM.plans.values(), RMSNORM.default]:
        axes = RMSNORM.algorithms[plan.algorithm].axes
        assert set(plan.axes) <= set(axes)
        assert all(value in axes[axis] for axis, value in [*plan.start.items(), *plan.moves])


def test_no_plan_begins_with_what_cannot_work() -> None:
    for plan in RMSNORM.plans.values():
        start = RMSNORM.point(plan.algorithm, plan.start)
        assert not (WRONG | BROKEN) & set(start.items())


def test_different_points_are_different_code_and_the_header_names_them() -> None:
    for algorithm in RMSNORM.algorithms.values():
        for axis, values in algorithm.axes.items():
            chosen = [RMSNORM.point(algorithm.name, {axis: value}) for value in values]
            rendered = [render(RMSNORM, algorithm.name, p, INTERFACE) for p in chosen]
            bodies = {c.source.partition("\n")[2] for c in rendered}
            assert len(bodies) == len({tuple(sorted(p.items())) for p in chosen}), axis
            for candidate, point in zip(rendered, chosen, strict=True):
                assert read_header(candidate.source) == (algorithm.name, point)


def test_a_gpu_has_families_of_its_own() -> None:
    assert family_for("rmsnorm_h4096", ["x", "weight"], ["y"], "cuda:0") is RMSNORM
    assert family_for("rmsnorm", ["x", "weight"], ["y"]) is not RMSNORM
    assert family_for("topk", ["x"], ["values", "indices"], "cuda:0") is None
