"""What a reference's work is counted to be, on shapes or on values."""

from typing import Any

import pytest

from kernelarc_guard import counting
from kernelarc_guard.counting import count_work
from kernelarc_guard.faults import Refused
from kernelarc_guard.problem import Problem


def problem(
    reference: str, n: int = 8, dtype: str = "bfloat16", inputs: dict[str, Any] | None = None
) -> Problem:
    return Problem.model_validate(
        {
            "definition": {
                "name": "square",
                "axes": {"n": {"type": "var"}},
                "inputs": {"x": {"shape": ["n", "n"], "dtype": dtype}, **(inputs or {})},
                "outputs": {"y": {"shape": ["n", "n"], "dtype": "float32"}},
                "reference": f"import torch\nimport torch.nn.functional as F\n\n{reference}",
            },
            "workloads": [{"uuid": "w", "axes": {"n": n}}],
        }
    )


@pytest.mark.parametrize(
    ("body", "operations", "other"),
    [
        ("x @ x.T", {"bfloat16": 1024}, 0),
        ("F.linear(x, x).float() @ x.float()", {"bfloat16": 1024, "float32": 1024}, 128),
        ("torch.einsum('ij,kj->ik', x, x)", {"bfloat16": 1024}, 0),
        ("x + x", {}, 64),
        ("F.scaled_dot_product_attention(x[None], x[None], x[None])[0]", {"float32": 2048}, None),
    ],
)
def test_products_are_counted_by_the_dtype_of_their_operands(
    body: str, operations: dict[str, int], other: int | None
) -> None:
    (work,) = count_work(problem(f"def run(x):\n    return {body}\n"), "cpu")
    assert work.operations == operations
    assert other is None or work.other_operations == other
    assert work.how == "the reference on shapes alone"
    assert (work.read_bytes, work.written_bytes) == (128, 256)


def test_no_shape_is_too_large_to_be_counted() -> None:
    (work,) = count_work(problem("def run(x):\n    return x @ x\n", n=1 << 17), "cpu")
    assert work.operations == {"bfloat16": 2 * (1 << 51)}


LOOKS = "def run(x):\n    return x @ x if x.sum() > 0 else x @ x @ x\n"


def test_a_reference_that_looks_at_its_values_is_run_on_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (work,) = count_work(problem(LOOKS, dtype="float32"), "cpu")
    assert work.how == "the reference on one draw of values"
    assert work.operations in ({"float32": 1024}, {"float32": 2048})
    monkeypatch.setattr(counting, "MOST_BYTES", 100)
    (work,) = count_work(problem(LOOKS), "cpu")
    assert work.operations is None and work.other_operations is None
    assert "are more than the 100 that are run only to count" in work.how


def test_a_reference_that_fails_is_not_counted_and_says_why() -> None:
    (work,) = count_work(problem("def run(x):\n    raise ValueError('no')\n"), "cpu")
    assert work.operations is None and "ValueError: no" in work.how


def test_a_reference_that_does_not_load_is_refused() -> None:
    with pytest.raises(Refused, match="cannot be loaded"):
        count_work(problem("1 / 0\ndef run(x):\n    return x\n"), "cpu")


def test_a_scalar_that_is_drawn_has_a_value_only_in_a_real_run() -> None:
    scale = {"scale": {"shape": None, "dtype": "float32"}}
    (work,) = count_work(problem("def run(x, scale):\n    return x * scale\n", inputs=scale), "cpu")
    assert work.how == "the reference on one draw of values"
