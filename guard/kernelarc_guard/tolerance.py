"""Comparing outputs with the expected ones (imports torch).

An element matches where |actual - expected| <= max_atol + max_rtol * |expected|. Beyond that rule of
SOL-ExecBench: what is not finite must be so in both and the same, integers never pass through a
floating type, and an output that is all zero where the expected one is not fails. `strict` also
bounds the error by a multiple of what an honest error is (see `precision`). On inputs that are not the
workload's own its tolerance may give way to what float32 carries (see `leeway`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

import torch

from kernelarc_guard.definition import Definition
from kernelarc_guard.dtypes import is_float, torch_dtype
from kernelarc_guard.precision import Scales, kappa, row_length
from kernelarc_guard.workload import Tolerance

MOE_RATIO: Final = 0.95
"""Share of elements that FlashInfer-Bench wants right where op_type is `moe`."""
_BIGGEST: Final = torch.finfo(torch.float64).max
_PIECE: Final = 1 << 16
_PIECE_ON_DEVICE: Final = 1 << 26
"""A GPU has its cache for itself, and every piece is a wait for its answers."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How the outputs of one call compare; errors are over finite elements of all outputs."""

    ok: bool
    reason: Literal["wrong_result", "wrong_nonfinite"] | None = None
    max_absolute_error: float = 0.0
    max_relative_error: float = 0.0
    """Largest |actual - expected| / (|expected| + 1e-8)."""
    matched_ratio: float = 1.0
    """Of the output that matches worst."""
    detail: str = ""
    """The first output that fails and its worst element."""
    inputs: str = "own"
    """Where the call's inputs come from, in the words of a draw's kind."""


@dataclass(frozen=True)
class Mode:
    """What a tolerance mode makes of a workload's tolerance."""

    bound: Callable[[torch.Tensor, Tolerance], torch.Tensor]
    """|expected| -> largest error allowed, elementwise; may reuse its argument's memory."""
    ratio: Callable[[Tolerance], float]
    """The share of elements that must match."""
    relative_integers: bool
    """Does max_rtol apply to integer outputs?"""
    scaled: bool
    """Is the error bounded by a multiple of the honest error too?"""
    either: bool = False
    """Is an element that is within one of the two bounds within `bound`? Else within their sum."""


def _sum_of_bounds(magnitude: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    return magnitude.mul_(tolerance.max_rtol).add_(tolerance.max_atol)


def _either_bound(magnitude: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    return magnitude.add_(1e-8).mul_(tolerance.max_rtol).clamp_min_(tolerance.max_atol)


MODES: Final[dict[str, Mode]] = {
    "strict": Mode(_sum_of_bounds, lambda _: 1.0, relative_integers=False, scaled=True),
    "sol": Mode(
        _sum_of_bounds, lambda t: t.required_matched_ratio, relative_integers=True, scaled=False
    ),
    "flashinfer": Mode(
        _either_bound, lambda _: 1.0, relative_integers=True, scaled=False, either=True
    ),
}
"""Tolerance modes by name.

`strict` is `sol` with every element required, no relative tolerance on integers (an index that is
one in ten thousand off is wrong), and no error beyond `kappa` times what an honest one is.
`flashinfer` accepts an element within either bound.
"""


def mode_of(definition: Definition) -> Mode:
    """Return a definition's tolerance mode; FlashInfer-Bench wants less of mixtures of experts."""
    named = definition.kernelarc.tolerance
    if named == "flashinfer" and definition.op_type == "moe":
        return replace(MODES[named], ratio=lambda _: MOE_RATIO)
    return MODES[named]


def compare(
    actual: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    tolerance: Tolerance,
    definition: Definition,
    *,
    refuse_zeros: bool = True,
    scales: Scales | None = None,
    leeway: Mapping[str, torch.Tensor] | None = None,
) -> Comparison:
    """Compare every output of the definition, under the definition's tolerance mode.

    An optional output that `actual` lacks is not compared.

    `actual` has the declared dtypes, `expected` is what the oracle returns; shapes must be equal
    (ValueError otherwise). `scales` says how large honest errors are, per row or `[1, 1]` for a
    whole output. `leeway` says what an element may be off where the workload's tolerance allows less;
    the bound by `scales` stays. All outputs are measured even after one fails.
    """
    mode = mode_of(definition)
    leeway = leeway or {}
    limits = {
        name: scale * kappa(actual[name].dtype)
        for name, scale in (scales or {}).items()
        if mode.scaled and name in actual
    }
    results = [
        _compare_one(
            name,
            actual[name],
            expected[name],
            tolerance,
            mode,
            refuse_zeros,
            limits.get(name),
            leeway.get(name),
        )
        for name in definition.answered(actual)
    ]
    failed = next((result for result in results if not result.ok), None)
    return Comparison(
        ok=failed is None,
        reason=failed.reason if failed else None,
        max_absolute_error=max(result.max_absolute_error for result in results),
        max_relative_error=max(result.max_relative_error for result in results),
        matched_ratio=min(result.matched_ratio for result in results),
        detail=failed.detail if failed else "",
    )


def _compare_one(
    name: str,
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance: Tolerance,
    mode: Mode,
    refuse_zeros: bool,
    limit: torch.Tensor | None,
    leeway: torch.Tensor | None,
) -> Comparison:
    if actual.shape != expected.shape:
        raise ValueError(
            f"output {name}: shape {list(actual.shape)} against {list(expected.shape)}"
        )
    if expected.numel() == 0:
        return Comparison(ok=True)
    if not is_float(actual.dtype):
        return _compare_integers(name, actual, expected, tolerance, mode)
    # A limit of the honest error refuses zeros better: it knows where they are the right answer.
    if (
        refuse_zeros
        and limit is None
        and _only_zeros(actual)
        and bool(expected.to(actual.dtype).any())
    ):
        return _all_zero(name, expected)
    # What passes without leeway passes with it.
    passed = _fast_pass(actual, expected, tolerance, mode, limit)
    if passed is not None:
        return passed
    got, wanted = actual.to(torch.float64), expected.to(torch.float64)
    error = (got - wanted).abs_()
    bound = mode.bound(wanted.abs(), tolerance)
    if leeway is not None:
        bound = torch.maximum(bound, leeway)
    if limit is not None:
        rows = bound.reshape(-1, row_length(tuple(bound.shape)))
        bound = torch.minimum(rows, limit).reshape(bound.shape)
    largest = float(error.max())
    if largest != largest or largest == float("inf"):
        odd = _nonfinite_mismatch(got, wanted)
        if odd is not None:
            return _nonfinite(name, odd, got, wanted, error)
        # What is left is equal where it is not finite: no error there, whatever the bound.
        equal = ~torch.isfinite(wanted)
        error[equal], bound[equal] = 0.0, 0.0
        largest = float(error.max())
    return _judged(name, actual, wanted, error, bound, largest, tolerance, mode)


def _fast_pass(
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance: Tolerance,
    mode: Mode,
    limit: torch.Tensor | None,
) -> Comparison | None:
    """Return the comparison of finite outputs that match; None sends the rest the slow way.

    Works on pieces that stay in the cache: whole-tensor temporaries cost three times as much.
    """
    count = actual.numel()
    found = _seen_on_device(actual, expected, tolerance, mode, limit)
    if found is None:
        found = _seen(actual, expected, tolerance, mode, limit)
    if found is None:
        return None
    largest, relative, matched = found
    cap = tolerance.max_error_cap
    if matched / count < mode.ratio(tolerance) or (cap is not None and largest > cap):
        return None
    return Comparison(
        ok=True,
        max_absolute_error=largest,
        max_relative_error=relative,
        matched_ratio=matched / count,
    )


def _seen_on_device(
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance: Tolerance,
    mode: Mode,
    limit: torch.Tensor | None,
) -> tuple[float, float, int] | None:
    """Return what `_seen` does, in one pass on a GPU; None where that cannot be."""
    if not actual.is_cuda:
        return None
    from kernelarc_guard.cuda.comparing import seen

    return seen(actual, expected, limit, tolerance.max_rtol, tolerance.max_atol, mode.either)


def _seen(
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance: Tolerance,
    mode: Mode,
    limit: torch.Tensor | None,
) -> tuple[float, float, int] | None:
    """Return the largest absolute and relative error and how many match; None where not finite."""
    largest = relative = 0.0
    matched = 0
    for got, part, allowed in _pieces(actual, expected, limit):
        wanted = part.to(torch.float64)
        error = (got.to(torch.float64) - wanted).abs_()
        worst = float(error.max())
        if not worst <= _BIGGEST:
            return None
        magnitude = wanted.abs()
        relative = max(relative, float((error / (magnitude + 1e-8)).max()))
        bound = mode.bound(magnitude, tolerance)
        if allowed is not None:
            bound = torch.minimum(bound, allowed)
        matched += int(torch.count_nonzero(error <= bound))
        largest = max(largest, worst)
    return largest, relative, matched


def _pieces(
    actual: torch.Tensor, expected: torch.Tensor, limit: torch.Tensor | None
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]:
    """Yield both tensors piece by piece with the limit that holds there."""
    piece = _PIECE_ON_DEVICE if actual.is_cuda else _PIECE
    if limit is None or limit.numel() == 1:
        got, wanted = actual.reshape(-1), expected.reshape(-1)
        for start in range(0, got.numel(), piece):
            end = start + piece
            yield got[start:end], wanted[start:end], None if limit is None else limit[0]
        return
    length = row_length(tuple(expected.shape))
    got, wanted = actual.reshape(-1, length), expected.reshape(-1, length)
    many = max(1, piece // length)
    for row in range(0, got.shape[0], many):
        rows = slice(row, row + many)
        for start in range(0, length, piece):
            columns = slice(start, start + piece)
            yield got[rows, columns], wanted[rows, columns], limit[rows]


def _judged(
    name: str,
    actual: torch.Tensor,
    wanted: torch.Tensor,
    error: torch.Tensor,
    bound: torch.Tensor,
    largest: float,
    tolerance: Tolerance,
    mode: Mode,
) -> Comparison:
    count = error.numel()
    outside = count - int(torch.count_nonzero(error <= bound))
    ratio = (count - outside) / count
    relative = error / wanted.abs().add_(1e-8)
    worst_relative = float(relative.nan_to_num_(nan=0.0).max())
    capped = tolerance.max_error_cap is not None and largest > tolerance.max_error_cap
    ok = ratio >= mode.ratio(tolerance) and not capped
    detail = ""
    if not ok:
        worst = (error - bound).nan_to_num_(nan=0.0) if outside else error
        at = _index(worst.argmax(), error.shape)
        allowed = tolerance.max_error_cap if capped and not outside else float(bound[at])
        detail = (
            f"output {name} at {list(at)}: got {actual[at].item():.9g}, wanted "
            f"{float(wanted[at]):.9g}, off by {float(error[at]):.3g} where {allowed:.3g} is "
            f"allowed; {outside} of {count} elements are outside the tolerance"
        )
    return Comparison(
        ok=ok,
        reason=None if ok else "wrong_result",
        max_absolute_error=min(largest, _BIGGEST),
        max_relative_error=min(worst_relative, _BIGGEST),
        matched_ratio=ratio,
        detail=detail,
    )


def _compare_integers(
    name: str, actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance, mode: Mode
) -> Comparison:
    if actual.dtype is torch_dtype("float4_e2m1"):
        actual, expected = actual.view(torch.uint8), expected.view(torch.uint8)
    got, wanted = actual.to(torch.int64), expected.to(torch.int64)
    if torch.equal(got, wanted):
        return Comparison(ok=True)
    if not mode.relative_integers:
        tolerance = tolerance.model_copy(update={"max_rtol": 0.0})
    # The difference wraps where it leaves int64; a float64 difference then tells it is large.
    exact = (got - wanted).abs_().to(torch.float64)
    error = torch.maximum(exact, (got.to(torch.float64) - wanted.to(torch.float64)).abs_())
    error[got == wanted] = 0.0
    wide = wanted.to(torch.float64)
    bound = mode.bound(wide.abs(), tolerance)
    return _judged(name, got, wide, error, bound, float(error.max()), tolerance, mode)


def _only_zeros(tensor: torch.Tensor) -> bool:
    flat = tensor.reshape(-1)
    # Nearly every output shows a value at once; only a suspicious one is read whole.
    return not bool(flat[:64].to(torch.float32).any()) and not bool(flat.to(torch.float64).any())


def _all_zero(name: str, expected: torch.Tensor) -> Comparison:
    wanted = expected.to(torch.float64).nan_to_num()
    largest = float(wanted.abs().max())
    return Comparison(
        ok=False,
        reason="wrong_result",
        max_absolute_error=largest,
        max_relative_error=1.0,
        matched_ratio=float((wanted == 0).to(torch.float64).mean()),
        detail=f"output {name}: all zero, where values up to {largest:.6g} are expected",
    )


def _nonfinite_mismatch(got: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor | None:
    """Return where one of the two is not finite and the other is not the same."""
    odd = (~torch.isfinite(got)) | (~torch.isfinite(wanted))
    same = (got == wanted) | (torch.isnan(got) & torch.isnan(wanted))
    odd &= ~same
    return odd if bool(odd.any()) else None


def _nonfinite(
    name: str, odd: torch.Tensor, got: torch.Tensor, wanted: torch.Tensor, error: torch.Tensor
) -> Comparison:
    at = _index(odd.reshape(-1).to(torch.uint8).argmax(), odd.shape)
    count = int(odd.sum())
    finite = error.nan_to_num(nan=0.0, posinf=0.0)
    relative = (finite / wanted.abs().add_(1e-8)).nan_to_num_(nan=0.0, posinf=0.0)
    return Comparison(
        ok=False,
        reason="wrong_nonfinite",
        max_absolute_error=float(finite.max()),
        max_relative_error=float(relative.max()),
        matched_ratio=1.0 - count / odd.numel(),
        detail=(
            f"output {name} at {list(at)}: got {float(got[at]):.9g}, wanted "
            f"{float(wanted[at]):.9g}; {count} of {odd.numel()} elements differ in being finite"
        ),
    )


def _index(flat: torch.Tensor, shape: torch.Size) -> tuple[int, ...]:
    return tuple(int(one) for one in torch.unravel_index(flat, shape))
