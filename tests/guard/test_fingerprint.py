"""What formatting hides and what it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelarc_guard.fingerprint import dsl_of, normalised_digest, shingle_similarity
from kernelarc_guard.solution import Solution, SourceFile, make_solution

PY = '''
import torch

def run(x, w):
    """Normalise."""
    total = x.sum(dim=-1)  # rows
    return x / total[:, None] * w
'''
PY_REFORMATTED = """
import torch
# a comment


def run(x, w):
    'Another docstring.'

    total = x.sum(
        dim=-1)
    return x / \\
        total[:,None] * w
"""
CPP = """
#include <cmath>
#define TILE 8
/* block
   comment */
extern "C" int run(const float* x, float* y) { // entry
  for (int i = 0; i < TILE; ++i) y[i] = std::exp(x[i]) + 1.5e-3f;
  return 0;
}
"""
CPP_REFORMATTED = """
#include <cmath>

#define TILE 8
extern "C"
int run(const float *x, float *y)
{
  for (int i=0;i<TILE;++i)
    y[i]=std::exp(x[i])+1.5e-3f;
  return 0;
}"""


def _files(text: str, path: str = "a.py") -> list[SourceFile]:
    return [SourceFile(path=path, content=text)]


def _digest(text: str, path: str = "a.py") -> str:
    return normalised_digest(_files(text, path))


def test_python_formatting_comments_and_docstrings_do_not_count() -> None:
    assert _digest(PY) == _digest(PY_REFORMATTED)


def test_cpp_formatting_and_comments_do_not_count() -> None:
    assert _digest(CPP, "a.cpp") == _digest(CPP_REFORMATTED, "a.cpp")


@pytest.mark.parametrize(
    ("old", "new"),
    [("dim=-1", "dim=0"), ("* w", "+ w"), ("    return", "        return"), ("total[", "x[")],
)
def test_a_python_change_of_meaning_counts(old: str, new: str) -> None:
    assert _digest(PY.replace(old, new)) != _digest(PY)


@pytest.mark.parametrize(
    ("old", "new"),
    [("TILE 8", "TILE 16"), ("1.5e-3f", "1.5e-4f"), ('"C"', '"C++"'), ("<cmath>", "<math.h>")],
)
def test_a_cpp_change_of_meaning_counts(old: str, new: str) -> None:
    assert _digest(CPP.replace(old, new), "a.cpp") != _digest(CPP, "a.cpp")


def test_indentation_counts_in_python() -> None:
    inside = "def f():\n    if a:\n        b()\n        c()\n"
    outside = "def f():\n    if a:\n        b()\n    c()\n"
    assert _digest(inside) != _digest(outside)


def test_text_in_strings_is_no_comment() -> None:
    assert _digest('s = "# a"\n') != _digest('s = "# b"\n')
    one, two = 'auto s = "// a";', 'auto s = "// b";'
    assert _digest(one, "a.cpp") != _digest(two, "a.cpp")
    assert _digest('auto s = R"x(/* ")x";', "a.cpp") != _digest('auto s = R"x( ")x";', "a.cpp")


def test_a_string_used_as_a_value_is_no_docstring() -> None:
    assert _digest('x = "a"\n') != _digest('x = "b"\n')
    assert _digest("x = 1\n'''note'''\ny = 2\n") == _digest("x = 1\ny = 2\n")


def test_file_names_and_order_do_not_count() -> None:
    a, b = SourceFile(path="a.py", content="x = 1"), SourceFile(path="b.py", content="y = 2")
    c = SourceFile(path="c.py", content="x = 1")
    assert normalised_digest([a, b]) == normalised_digest([b, c])


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300))
def test_any_text_has_a_digest_and_is_like_itself(text: str) -> None:
    for path in ("a.py", "a.cpp"):
        files = _files(text, path)
        assert normalised_digest(files) == normalised_digest(files)
        assert shingle_similarity(files, files) == 1.0


@given(st.lists(st.sampled_from("abcdefgh"), max_size=40), st.lists(st.sampled_from("abcdefgh")))
def test_similarity_is_symmetric_and_a_share(a: list[str], b: list[str]) -> None:
    left, right = _files(" ".join(a), "a.cpp"), _files(" ".join(b), "b.cpp")
    similarity = shingle_similarity(left, right)
    assert 0.0 <= similarity <= 1.0
    assert similarity == shingle_similarity(right, left)


def test_a_light_edit_is_similar_and_another_kernel_is_not() -> None:
    lines = [f"y[{i}] = x[{i}] * {i} + offset;" for i in range(60)]
    light = [*lines[:30], "y[30] = 0;", *lines[31:]]
    base = _files("\n".join(lines), "a.cpp")
    assert shingle_similarity(base, _files("\n".join(light), "a.cpp")) > 0.8
    assert shingle_similarity(base, _files(CPP, "a.cpp")) < 0.2


@pytest.mark.parametrize(
    ("text", "dsl"),
    [
        ("import numpy as np\nimport torch", "torch"),
        ("from numpy import exp", "numpy"),
        ("import triton.language as tl\nimport torch", "triton"),
        ("from torch.utils.cpp_extension import load_inline", "cpp_extension"),
        ("from torch.utils import cpp_extension", "cpp_extension"),
        ("def run(x): return x", "python"),
        ("# import triton\nimport torch", "torch"),
        ("import triton(", "python"),
    ],
)
def test_the_dsl_of_python_is_its_most_special_import(text: str, dsl: str) -> None:
    assert dsl_of(_solution("python", "a.py", text)) == dsl


def test_the_dsl_of_native_code_is_cuda_where_it_has_kernels() -> None:
    assert dsl_of(_solution("cpp", "a.cpp", CPP)) == "cpp"
    assert dsl_of(_solution("cpp", "a.cpp", "__global__ void k() {}")) == "cuda"
    assert dsl_of(_solution("cuda", "a.cu", CPP)) == "cuda"


def _solution(language: str, path: str, text: str) -> Solution:
    return make_solution(
        {
            "name": "s",
            "definition": "d",
            "spec": {"languages": [language], "entry_point": f"{path}::run"},
            "sources": [{"path": path, "content": text}],
        }
    )
