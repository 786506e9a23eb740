"""Comparing outputs: what passes, what fails, and what is said about it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelarc_guard.problem import Definition, Tolerance
from kernelarc_guard.tolerance import Comparison, compare

TIGHT = Tolerance(max_atol=1e-3, max_rtol=1e-3, required_matched_ratio=0.9)


def _definition(dtype: str = "float32", mode: str = "strict", outputs: str = "y") -> Definition:
    return Definition.model_validate(
        {
            "name": "d",
            "axes": {"n": {"type": "var"}},
            "inputs": {"x": {"shape": ["n"], "dtype": dtype}},
            "outputs": {name: {"shape": ["n"], "dtype": dtype} for name in outputs},
            "reference": "def run(x): return x",
            "kernelarc": {"tolerance": mode},
        }
    )


def _compare(
    got: torch.Tensor, wanted: torch.Tensor, tolerance: Tolerance = TIGHT, mode: str = "strict"
) -> Comparison:
    definition = _definition(str(got.dtype).removeprefix("torch."), mode)
    return compare({"y": got}, {"y": wanted}, tolerance, definition)


def test_equal_outputs_match_with_no_error() -> None:
    values = torch.randn(1000)
    result = _compare(values, values.double())
    assert result == Comparison(ok=True)


def test_the_bound_is_the_sum_of_both_tolerances() -> None:
    wanted = torch.tensor([10.0], dtype=torch.float64)
    assert _compare(torch.tensor([10.0109]), wanted).ok
    result = _compare(torch.tensor([10.0112]), wanted)
    assert result.reason == "wrong_result"
    assert math.isclose(result.max_absolute_error, 0.0112, rel_tol=1e-3)
    assert math.isclose(result.max_relative_error, 0.00112, rel_tol=1e-3)
    assert result.matched_ratio == 0.0


def test_the_detail_names_the_worst_element() -> None:
    wanted = torch.ones(4, 5, dtype=torch.float64)
    got = wanted.float()
    got[1, 2], got[3, 4] = 1.5, -7.25
    result = _compare(got, wanted)
    assert "output y at [3, 4]: got -7.25, wanted 1" in result.detail
    assert "2 of 20 elements" in result.detail


def test_strict_wants_every_element_and_sol_the_stated_share() -> None:
    wanted = torch.ones(100, dtype=torch.float64)
    got = wanted.float()
    got[:10] = 50.0
    assert not _compare(got, wanted, mode="strict").ok
    result = _compare(got, wanted, mode="sol")
    assert result.ok
    assert result.matched_ratio == 0.9
    assert result.max_absolute_error == 49.0
    got[10] = 50.0
    assert not _compare(got, wanted, mode="sol").ok


def test_flashinfer_accepts_either_bound() -> None:
    tolerance = Tolerance(max_atol=1e-2, max_rtol=1e-2)
    wanted = torch.tensor([0.1, 100.0], dtype=torch.float64)
    assert _compare(torch.tensor([0.109, 100.9]), wanted, tolerance, "flashinfer").ok
    assert not _compare(torch.tensor([0.1105, 100.0]), wanted, tolerance, "flashinfer").ok
    assert _compare(torch.tensor([0.1105, 100.0]), wanted, tolerance, "strict").ok


def test_flashinfer_wants_less_of_mixtures_of_experts() -> None:
    wanted = torch.ones(100, dtype=torch.float64)
    got = wanted.float()
    got[:5] = 3.0
    experts = _definition(mode="flashinfer").model_copy(update={"op_type": "moe"})
    assert not _compare(got, wanted, mode="flashinfer").ok
    assert compare({"y": got}, {"y": wanted}, TIGHT, experts).ok
    got[5] = 3.0
    assert not compare({"y": got}, {"y": wanted}, TIGHT, experts).ok


def test_the_cap_holds_for_elements_the_ratio_forgives() -> None:
    tolerance = TIGHT.model_copy(update={"max_error_cap": 5.0})
    wanted = torch.ones(100, dtype=torch.float64)
    got = wanted.float()
    got[7] = 4.0
    assert _compare(got, wanted, tolerance, "sol").ok
    got[7] = 40.0
    result = _compare(got, wanted, tolerance, "sol")
    assert not result.ok
    assert "at [7]" in result.detail


@pytest.mark.parametrize("mode", ["strict", "sol", "flashinfer"])
@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        ("nan", "1"),
        ("inf", "1"),
        ("1", "nan"),
        ("1", "-inf"),
        ("inf", "-inf"),
        ("nan", "inf"),
    ],
)
def test_what_is_not_finite_must_be_so_in_both_and_the_same(
    got: str, wanted: str, mode: str
) -> None:
    base = torch.ones(100)
    base[42] = float(got)
    expected = torch.ones(100, dtype=torch.float64)
    expected[42] = float(wanted)
    result = _compare(base, expected, mode=mode)
    assert result.reason == "wrong_nonfinite"
    assert "output y at [42]" in result.detail
    assert math.isfinite(result.max_absolute_error)
    assert math.isfinite(result.max_relative_error)


def test_the_same_nonfinite_values_match_and_do_not_hide_others() -> None:
    wanted = torch.tensor([math.nan, math.inf, -math.inf, 1.0], dtype=torch.float64)
    result = _compare(wanted.float(), wanted)
    assert result == Comparison(ok=True)
    got = wanted.float()
    got[3] = 2.0
    result = _compare(got, wanted)
    assert result.reason == "wrong_result"
    assert result.max_absolute_error == 1.0
    assert "at [3]" in result.detail


def test_all_zeros_fail_even_inside_the_tolerance() -> None:
    wanted = torch.full((1000,), 1e-5, dtype=torch.float64)
    result = _compare(torch.zeros(1000), wanted)
    assert result.reason == "wrong_result"
    assert "all zero" in result.detail
    assert _compare(torch.zeros(1000), torch.zeros(1000, dtype=torch.float64)).ok
    too_small = torch.full((1000,), 1e-60, dtype=torch.float64)
    assert _compare(torch.zeros(1000), too_small).ok


def test_zeros_before_the_first_value_are_no_reason_to_fail() -> None:
    wanted = torch.zeros(1000, dtype=torch.float64)
    wanted[-1] = 3.0
    assert _compare(wanted.float(), wanted).ok


def test_large_integers_are_compared_exactly() -> None:
    exact = Tolerance(max_atol=0.0, max_rtol=0.0)
    for base in (2**24, 2**53, 2**62):
        wanted = torch.tensor([base, base])
        assert _compare(wanted.clone(), wanted, exact).ok
        result = _compare(torch.tensor([base, base + 1]), wanted, exact)
        assert result.reason == "wrong_result"
        assert f"output y at [1]: got {float(base + 1):.9g}" in result.detail


def test_a_difference_that_leaves_int64_is_still_one() -> None:
    low, high = -(2**63), 2**63 - 1
    tolerance = Tolerance(max_atol=10.0, max_rtol=0.0)
    assert not _compare(torch.tensor([low]), torch.tensor([high]), tolerance).ok
    assert not _compare(torch.tensor([low]), torch.tensor([0]), tolerance).ok


def test_indices_get_no_relative_tolerance_in_strict_mode() -> None:
    tolerance = Tolerance(max_atol=0.0, max_rtol=1e-2)
    got, wanted = torch.tensor([20_001]), torch.tensor([20_000])
    assert not _compare(got, wanted, tolerance, "strict").ok
    assert _compare(got, wanted, tolerance, "sol").ok


def test_booleans_and_rounded_integers_follow_the_absolute_tolerance() -> None:
    yes, no = torch.tensor([True]), torch.tensor([False])
    assert _compare(yes, yes).ok
    assert not _compare(yes, no).ok
    one_off = Tolerance(max_atol=1.0, max_rtol=0.0)
    got, wanted = torch.tensor([3], dtype=torch.int8), torch.tensor([4], dtype=torch.int8)
    assert _compare(got, wanted, one_off).ok


def test_every_output_is_compared_and_the_first_failure_named() -> None:
    definition = _definition(outputs="abc")
    wanted = {name: torch.ones(4, dtype=torch.float64) for name in "abc"}
    got = {name: torch.ones(4) for name in "abc"}
    got["b"] = torch.full((4,), 3.0)
    got["c"] = torch.full((4,), math.nan)
    result = compare(got, wanted, TIGHT, definition)
    assert result.reason == "wrong_result"
    assert result.detail.startswith("output b")
    assert result.max_absolute_error == 2.0


def test_neither_side_is_changed_by_comparing() -> None:
    got, wanted = torch.randn(50, dtype=torch.float64), torch.randn(50, dtype=torch.float64)
    kept = got.clone(), wanted.clone()
    _compare(got, wanted)
    assert torch.equal(got, kept[0])
    assert torch.equal(wanted, kept[1])


def test_strides_do_not_matter_and_empty_outputs_match() -> None:
    wanted = torch.randn(30, 40, dtype=torch.float64)
    got = wanted.float().t().contiguous().t()
    assert _compare(got, wanted, Tolerance(max_atol=1e-5, max_rtol=1e-5)).ok
    assert _compare(torch.ones(0), torch.ones(0, dtype=torch.float64)).ok


def test_outputs_of_another_shape_are_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match=r"output y: shape \[2\] against \[3\]"):
        _compare(torch.ones(2), torch.ones(3, dtype=torch.float64))


def test_an_error_in_the_last_piece_of_a_large_output_is_found() -> None:
    wanted = torch.ones(200_001, dtype=torch.float64)
    got = wanted.float()
    got[-1] = 2.0
    assert "at [200000]" in _compare(got, wanted).detail


_values = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=30)


@given(_values, st.floats(0, 10), st.floats(0, 1))
def test_the_verdict_is_the_plain_formula(values: list[float], atol: float, rtol: float) -> None:
    tolerance = Tolerance(max_atol=atol, max_rtol=rtol)
    got = torch.tensor(values, dtype=torch.float64)
    wanted = torch.tensor(values[::-1], dtype=torch.float64)
    result = compare(
        {"y": got}, {"y": wanted}, tolerance, _definition("float64"), refuse_zeros=False
    )
    pairs = list(zip(values, values[::-1], strict=True))
    assert result.ok == all(abs(a - b) <= rtol * abs(b) + atol for a, b in pairs)
