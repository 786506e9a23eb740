"""Every kernel family at many points: the code compiles, runs and is right on awkward shapes."""

import hashlib
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelfamilies.catalogue import FAMILIES
from kernelfamilies.family import Candidate, Interface, Point, read_header, render
from kernelfamilies.machine import IS_X86

from kernelarc_guard.dltensor import as_dltensor, load_function
from kernelarc_guard.fingerprint import shingle_similarity
from kernelarc_guard.inputs import make_inputs
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.solution import SourceFile
from kernelarc_guard.toolchain import find_toolchain
from kernelarc_guard.workload import Workload
from kernelarc_mcp.data import data_dir

SHAPES: dict[str, list[dict[str, int]]] = {
    "rmsnorm": [{"rows": 5, "hidden": 133}, {"rows": 1, "hidden": 3}],
    "softmax": [{"rows": 3, "columns": 1093}, {"rows": 2, "columns": 1}],
    "matmul_residual": [{"m": 13, "k": 67, "n": 71}, {"m": 1, "k": 1, "n": 1}],
    "small_matmul": [{"m": 3, "k": 70, "n": 37}, {"m": 1, "k": 1, "n": 1}],
    "causal_conv": [
        {"batch": 2, "channels": 3, "length": 75},
        {"batch": 1, "channels": 1, "length": 2},
    ],
    "topk": [{"rows": 3, "columns": 203}, {"rows": 1, "columns": 8}],
}
EXPERIMENTAL = Path(__file__).parents[2] / "benchmarks" / "problems"
"""Problems of experiments, which are no part of the library."""
TOO_COARSE = {("exp", "poly3")}
"""Values that a family offers and the tolerance refuses: agents are to find out."""


def has_avx512() -> bool:
    flags = Path("/proc/cpuinfo")
    return flags.is_file() and " avx512f " in flags.read_text()


@cache
def problem(name: str) -> Problem:
    folder = data_dir("kernels") / name
    return read_problem(folder if folder.is_dir() else EXPERIMENTAL / name)


def interface(name: str) -> Interface:
    definition = problem(name).definition
    return Interface(
        inputs=tuple(definition.inputs),
        outputs=tuple(definition.outputs),
        reference=definition.reference,
    )


def covering(axes: dict[str, tuple[str, ...]]) -> Iterator[Point]:
    """Yield a few points in which every value of every axis occurs."""
    for number in range(max(map(len, axes.values()))):
        yield {axis: values[number % len(values)] for axis, values in axes.items()}


def usable(point: Point) -> bool:
    """Say whether this machine can run the point and its accuracy is meant to pass."""
    if point.get("vector") == "avx512" and not (point["target"] == "native" and has_avx512()):
        return False
    return not TOO_COARSE & set(point.items())


def cases() -> list[Any]:
    found, seen = [], set[int]()
    for name, (family, _, _) in FAMILIES.items():
        for algorithm in family.algorithms.values():
            if id(algorithm) in seen:
                continue  # of another family, too
            seen.add(id(algorithm))
            points = [dict(algorithm.start), *covering(dict(algorithm.axes))]
            distinct = {tuple(sorted(family.point(algorithm.name, p).items())) for p in points}
            found += [
                pytest.param(name, algorithm.name, dict(point), id=f"{name}-{algorithm.name}-{n}")
                for n, point in enumerate(sorted(distinct))
                if usable(dict(point))
            ]
    return found


def compile_it(candidate: Candidate, folder: Path) -> subprocess.CompletedProcess[str]:
    toolchain = find_toolchain()
    if toolchain is None or toolchain.include is None:
        pytest.skip("needs a C++ compiler and tvm-ffi's headers")
    source = folder / candidate.filename
    source.write_text(candidate.source)
    command = [toolchain.compiler, "-shared", "-fPIC", "-std=c++17", "-Wall", "-Werror"]
    command += ["-Wno-psabi", "-Wno-ignored-attributes", "-Wno-unknown-pragmas"]
    command += [f"-I{toolchain.include}", *candidate.cflags, str(source), "-o"]
    return subprocess.run(
        [*command, str(folder / "kernel.so")], capture_output=True, text=True, timeout=120
    )


def run_it(
    candidate: Candidate, folder: Path, inputs: dict[str, Any], expected: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    if candidate.language == "python":
        namespace: dict[str, Any] = {}
        exec(compile(candidate.source, candidate.filename, "exec"), namespace)
        returned = namespace["run"](*inputs.values())
        several = returned if isinstance(returned, tuple) else (returned,)
        return dict(zip(expected, several, strict=True))
    outputs = {
        name: torch.full(tensor.shape, 7, dtype=torch.int64 if name == "indices" else torch.float32)
        for name, tensor in expected.items()
    }
    call = load_function(folder / "kernel.so", "run")
    call(*[as_dltensor(tensor) for tensor in (*inputs.values(), *outputs.values())])
    return outputs


@pytest.mark.parametrize(("name", "algorithm", "point"), cases())
def test_a_point_compiles_and_is_right(
    name: str, algorithm: str, point: Point, tmp_path: Path
) -> None:
    family = FAMILIES[name][0]
    candidate = render(family, algorithm, point, interface(name))
    if candidate.language == "cpp":
        compiled = compile_it(candidate, tmp_path)
        assert compiled.returncode == 0, compiled.stderr
    first = problem(name).workloads[0]
    for axes in SHAPES[name]:
        workload = Workload(uuid="w", axes=axes, inputs=first.inputs, tolerance=first.tolerance)
        inputs = make_inputs(problem(name).definition, workload, seed=11)
        expected = Oracle(problem(name)).expected(workload, inputs)
        large = {input: tensor * 40 for input, tensor in inputs.items()}
        for tensor in run_it(candidate, tmp_path, large, expected).values():
            assert torch.isfinite(tensor).all()
        actual = run_it(candidate, tmp_path, inputs, expected)
        for output, tensor in expected.items():
            assert actual[output].shape == tensor.shape
            assert torch.allclose(
                actual[output].double(),
                tensor.double(),
                atol=first.tolerance.max_atol,
                rtol=first.tolerance.max_rtol,
            ), (axes, output)


@pytest.mark.parametrize(("name", "axis"), [("rmsnorm", "hidden"), ("softmax", "columns")])
def test_a_long_row_of_equal_values_keeps_its_digits(name: str, axis: str, tmp_path: Path) -> None:
    """Rounding errors of equal terms add up instead of cancelling."""
    family = FAMILIES[name][0]
    definition, first = problem(name).definition, problem(name).workloads[0]
    workload = Workload(
        uuid="long", axes={"rows": 1, axis: 16384}, inputs=first.inputs, tolerance=first.tolerance
    )
    inputs = make_inputs(definition, workload, seed=3)
    inputs["x"] = torch.full((1, 16384), 0.7).index_fill_(1, torch.tensor([0]), 0.9)
    expected = Oracle(problem(name)).expected(workload, inputs)
    for plan in family.plans.values():
        point = family.point(plan.algorithm, plan.start)
        candidate = render(family, plan.algorithm, point, interface(name))
        if candidate.language == "cpp":
            # A library is loaded once by its path: each needs a folder of its own.
            folder = tmp_path / hashlib.sha256(candidate.source.encode()).hexdigest()[:8]
            folder.mkdir(exist_ok=True)
            assert compile_it(candidate, folder).returncode == 0
            actual = run_it(candidate, folder, inputs, expected)["y"].double()
            assert torch.allclose(actual, expected["y"].double(), atol=0, rtol=2e-6), plan


@pytest.mark.skipif(not IS_X86, reason="needs an x86 compiler")
@pytest.mark.parametrize("name", FAMILIES)
def test_the_widest_intrinsics_do_not_compile_for_the_portable_target(
    name: str, tmp_path: Path
) -> None:
    family = FAMILIES[name][0]
    plan = family.plan("hardware-native")
    point = family.point(plan.algorithm, {**plan.start, "vector": "avx512"})
    compiled = compile_it(render(family, plan.algorithm, point, interface(name)), tmp_path)
    assert compiled.returncode != 0
    assert "target specific option mismatch" in compiled.stderr or "requires" in compiled.stderr


@pytest.mark.parametrize("name", FAMILIES)
def test_another_algorithm_is_never_a_light_edit(name: str) -> None:
    family = FAMILIES[name][0]
    sources = [
        [SourceFile(path=c.filename, content=c.source)]
        for algorithm in family.algorithms.values()
        for c in [render(family, algorithm.name, algorithm.start, interface(name))]
    ]
    assert all(shingle_similarity(a, b) < 0.8 for a, b in combinations(sources, 2))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_plan_names_what_its_family_has(name: str) -> None:
    family = FAMILIES[name][0]
    for plan in [*family.plans.values(), family.default]:
        axes = family.algorithms[plan.algorithm].axes
        assert set(plan.axes) <= set(axes)
        assert all(value in axes[axis] for axis, value in [*plan.start.items(), *plan.moves])


@pytest.mark.parametrize("name", FAMILIES)
def test_different_points_are_different_code_and_the_header_names_them(name: str) -> None:
    family = FAMILIES[name][0]
    for algorithm in family.algorithms.values():
        for axis, values in algorithm.axes.items():
            points = [family.point(algorithm.name, {axis: value}) for value in values]
            rendered = [render(family, algorithm.name, p, interface(name)) for p in points]
            bodies = {(c.source.partition("\n")[2], c.cflags) for c in rendered}
            assert len(bodies) == len({tuple(sorted(p.items())) for p in points}), axis
            for candidate, point in zip(rendered, points, strict=True):
                assert read_header(candidate.source) == (algorithm.name, point)
