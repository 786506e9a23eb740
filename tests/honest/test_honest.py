"""Unusual but right kernels are never refused."""

from pathlib import Path

import pytest
from cases import Case, cases, judged
from guard_process import Guard


@pytest.mark.parametrize("case", cases(Path(__file__).parent), ids=lambda case: case.kind)
def test_an_honest_kernel_passes(guard: Guard, case: Case) -> None:
    result = judged(guard, case)
    assert (result.verdict, result.reason) == (None, None), result.detail
    assert {one.state for one in result.workloads} == {"passed"}
    assert not any("input_left_out" in seen for seen in result.observations), result.observations
