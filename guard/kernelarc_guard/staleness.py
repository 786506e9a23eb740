"""Is a wrong output an earlier call's right one? (imports torch)"""

from collections.abc import Mapping, Sequence

import torch

from kernelarc_guard.dtypes import is_float
from kernelarc_guard.workload import Tolerance

Outputs = Mapping[str, torch.Tensor]
_MOST = 0.9


def is_stale(
    outputs: Outputs, expected: Outputs, tolerance: Tolerance, earlier: Sequence[Outputs]
) -> bool:
    """Say whether the wrong elements have, nearly all, the value that an earlier output had there.

    `earlier` holds outputs that were right when they were returned.
    """
    for name, got in outputs.items():
        wrong = _wrong(got, expected[name], tolerance)
        if not bool(wrong.any()):
            continue
        return any(
            float(torch.eq(got, before[name])[wrong].to(torch.float32).mean()) >= _MOST
            for before in earlier
        )
    return False


def _wrong(got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    if not is_float(got.dtype):
        return got != expected
    exact = expected.to(torch.float64)
    bound = tolerance.max_atol + tolerance.max_rtol * exact.abs()
    # Written so that NaN counts as wrong.
    return ~((got.to(torch.float64) - exact).abs() <= bound)
