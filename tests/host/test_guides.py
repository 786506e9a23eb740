"""Templates compile and are right; courses are whole, in order and short enough to be read."""

import ast
import ctypes
import math
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.guides import MAX_PAGE, load_courses, load_templates, pages, templates

FOLDER: Final = data_dir("strategies") / "templates"
NATIVE: Final = sorted(name for name, one in templates().items() if one.language == "cpp")
Array = ctypes.Array[ctypes.c_float]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Return all C++ templates in one library, compiled without a warning."""
    target = tmp_path_factory.mktemp("templates") / "templates.so"
    command = ["g++", "-std=c++17", "-O2", "-march=native", "-Wall", "-Wextra", "-Werror"]
    sources = [str(FOLDER / f"{name}.cpp") for name in NATIVE]
    done = subprocess.run(
        [*command, "-shared", "-fPIC", *sources, "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(target))


def floats(count: int, draw: Callable[[], float]) -> Array:
    return (ctypes.c_float * count)(*(draw() for _ in range(count)))


def long(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


def product(a: Array, b: Array, m: int, n: int, k: int) -> list[float]:
    return [
        math.fsum(a[i * k + p] * b[p * n + j] for p in range(k)) for i in range(m) for j in range(n)
    ]


def near(got: Array, want: list[float], allowed: float) -> None:
    assert len(got) == len(want)
    assert all(abs(one - other) <= allowed for one, other in zip(got, want, strict=True))


@pytest.mark.parametrize(("m", "n", "k"), [(3, 16, 5), (5, 37, 300), (1, 1, 1)])
def test_the_packed_panel_gives_the_product(compiled: Any, m: int, n: int, k: int) -> None:
    draw = random.Random(m * n * k)
    a, b = (floats(size, lambda: draw.gauss(0, 1)) for size in (m * k, k * n))
    c = (ctypes.c_float * (m * n))()
    leading = long(k), b, long(n), c, long(n)
    compiled.packed_product(a, *leading, long(m), long(n), long(k))
    near(c, product(a, b, m, n, k), 1e-3)


def test_the_register_tile_gives_the_product(compiled: Any) -> None:
    draw = random.Random(6)
    a, b = (floats(size, lambda: draw.gauss(0, 1)) for size in (6 * 50, 50 * 16))
    c = (ctypes.c_float * (6 * 16))()
    compiled.tile_6x16(a, long(50), b, c, long(16), long(50))
    near(c, product(a, b, 6, 16, 50), 1e-4)


@pytest.mark.parametrize("choice", range(4))
def test_every_tile_size_gives_the_product(compiled: Any, choice: int) -> None:
    draw = random.Random(choice)
    m, n, k = 13, 67, 9
    a, b = (floats(size, lambda: draw.gauss(0, 1)) for size in (m * k, k * n))
    c = (ctypes.c_float * (m * n))(*([math.nan] * (m * n)))
    compiled.tiled_product(a, b, c, long(m), long(n), long(k), choice)
    near(c, product(a, b, m, n, k), 1e-4)


@pytest.mark.parametrize("columns", [1, 31, 100])
def test_the_row_in_cache_is_normalised(compiled: Any, columns: int) -> None:
    draw = random.Random(columns)
    x, weight = floats(3 * columns, lambda: draw.gauss(0, 2)), floats(columns, draw.random)
    y = (ctypes.c_float * (3 * columns))()
    compiled.rms_rows(x, weight, y, long(3), long(columns), ctypes.c_float(1e-6))
    wanted = []
    for row in range(3):
        values = [float(value) for value in x[row * columns : (row + 1) * columns]]
        scale = 1 / math.sqrt(math.fsum(v * v for v in values) / columns + 1e-6)
        wanted += [v * scale * w for v, w in zip(values, weight, strict=True)]
    near(y, wanted, 1e-5)


def test_the_pair_of_floats_keeps_what_a_float_loses(compiled: Any) -> None:
    compiled.two_float_sum.restype = ctypes.c_float
    values = floats(10_003, random.Random(2).random)
    values[0] = 3e8
    wanted = math.fsum(values)
    assert compiled.two_float_sum(values, long(len(values))) == ctypes.c_float(wanted).value


def test_the_exponential_is_right_to_a_few_units(compiled: Any) -> None:
    compiled.exp_row.restype = ctypes.c_float
    x = floats(1001, iter([-200.0 + 0.25 * i for i in range(1001)]).__next__)
    y = (ctypes.c_float * len(x))()
    total = compiled.exp_row(x, y, long(len(x)), ctypes.c_float(3.0))
    shifted = [value - 3.0 for value in x]
    for got, value in zip(y, shifted, strict=True):
        if value < -87:
            assert got <= 2e-38
        elif value < 88:
            assert math.isclose(got, math.exp(value), rel_tol=5e-7)
    assert math.isclose(total, math.fsum(y), rel_tol=1e-5)


def test_the_threshold_takes_the_largest_and_of_equals_the_first(compiled: Any) -> None:
    draw, n, k = random.Random(5), 207, 8
    x = floats(2 * n, lambda: float(draw.randrange(40)))
    values, columns = (ctypes.c_float * (2 * k))(), (ctypes.c_int64 * (2 * k))()
    compiled.topk_rows(x, values, columns, long(2), long(n), long(k))
    for row in range(2):
        order = sorted(range(n), key=lambda j: (-x[row * n + j], j))[:k]
        assert list(columns[row * k : (row + 1) * k]) == order
        assert list(values[row * k : (row + 1) * k]) == [x[row * n + j] for j in order]


@pytest.mark.parametrize("columns", [64, 256, 4096, 77])
def test_constant_extents_and_the_general_form_sum_alike(compiled: Any, columns: int) -> None:
    x = floats(2 * columns, iter([float(i % 7) for i in range(2 * columns)]).__next__)
    y = (ctypes.c_float * 2)()
    compiled.row_sums(x, y, long(2), long(columns))
    assert list(y) == [math.fsum(x[:columns]), math.fsum(x[columns:])]


def test_the_python_templates_parse_and_have_a_run_with_a_docstring() -> None:
    for one in templates().values():
        if one.language not in ("triton", "python"):
            continue
        tree = ast.parse(one.text)
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        said = ast.get_docstring(functions["run"])
        assert said and "destination_passing" in said, one.name
        jitted = [
            f for f in functions.values() if any("jit" in ast.dump(d) for d in f.decorator_list)
        ]
        assert bool(jitted) == (one.language == "triton"), one.name


def test_every_cuda_template_has_the_launcher_that_the_gpu_script_calls() -> None:
    for one in templates().values():
        if one.language == "cuda":
            assert re.search(rf'extern "C" int {one.name}\(', one.text), one.name
            assert "cudaGetLastError()" in one.text


def test_a_course_is_read_page_by_page_from_its_contents() -> None:
    courses = {page.course for page in pages()}
    assert courses == {"hopper-gemm", "memory-bound"}
    for course in courses:
        contents, *rest = [page for page in pages() if page.course == course]
        assert not contents.name and len(rest) >= 6
        for number, page in enumerate(rest, start=1):
            assert f"{number}. `{page.uri}`: {page.summary}" in contents.text
            following = rest[number].uri if number < len(rest) else "This is the last page"
            assert following in page.text and contents.uri in page.text
            assert len(page.text) <= MAX_PAGE


def test_every_rung_says_what_to_read_what_goes_wrong_and_when_to_go_on() -> None:
    rungs = [page for page in pages() if page.text.startswith("# Rung ")]
    assert len(rungs) == 7
    for page in rungs:
        for part in ("## Read in ncu", "## Read in SASS", "## Typical errors"):
            assert part in page.text, page.uri
        assert "## Climb on" in page.text or "## From here" in page.text
    for page in pages():
        if page.course == "memory-bound" and page.name:
            assert "## Typical errors" in page.text and "## Go on" in page.text, page.uri


def test_the_courses_hold_no_kernel() -> None:
    for page in pages():
        assert "__global__" not in page.text and "```" not in page.text, page.uri


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("Tiles.md", "# A\n\n> b\n\nc", "expected a name like 01-tiles.md"),
        ("01-a.md", "no title", "expected `# Title`"),
        ("01-a.md", "# A\n\n> b\n\n" + "c" * 9_600, "a: 96"),
    ],
)
def test_a_malformed_page_is_refused_by_name(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    course = tmp_path / "course"
    course.mkdir()
    (course / "00-contents.md").write_text("# Course\n\n> Short.\n\nText.\n")
    (course / name).write_text(text)
    with pytest.raises(CampaignError, match=re.escape(told)):
        load_courses(tmp_path)


def test_a_course_without_contents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "course").mkdir()
    with pytest.raises(CampaignError, match=r"curriculum/course: expected 00-contents\.md first"):
        load_courses(tmp_path)


def test_a_template_without_a_sentence_or_with_anothers_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("int x;\n")
    with pytest.raises(CampaignError, match=r"a\.cu: line 1: expected a comment"):
        load_templates(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    for suffix in ("cu", "cpp"):
        (other / f"a.{suffix}").write_text("// Shows one thing.\n")
    with pytest.raises(CampaignError, match=r"there is another template 'a'"):
        load_templates(other)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_a_cuda_template_compiles_for_hopper(tmp_path: Path) -> None:
    # One that needs sm_90a; benchmarks/pattern_templates.py compiles them all.
    command = ["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-std=c++17", "-cubin"]
    source = str(FOLDER / "wgmma_tile.cu")
    done = subprocess.run(
        [*command, source, "-o", str(tmp_path / "tile.cubin")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
