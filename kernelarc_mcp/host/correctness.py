"""What a right answer is, and the limits of a call: for `get_brief`."""

from typing import Final

from kernelarc_guard.definition import KernelArcKeys
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.workload import Tolerance
from kernelarc_mcp.views import CorrectnessView, LimitsView, ToleranceView

MEANS: Final = {
    "strict": (
        "Every element must be within max_atol + max_rtol * |expected|, and also within what"
        " computing in the declared precision explains on the inputs at hand (16 times the"
        " reference's own error there, 4 times for 16-bit outputs, more where long sums are added one"
        " after the other), so bfloat16, half, TF32 or int8 inside a float32 contract is refused"
        " whatever max_atol says. Sums in any order and in several accumulators pass; where one is"
        " refused, sum in blocks, in pairs or in float64. Integer outputs get no relative tolerance."
    ),
    "sol": (
        "The share required_matched_ratio of the elements must be within"
        " max_atol + max_rtol * |expected|."
    ),
    "flashinfer": (
        "Every element must be within max_atol, or within max_rtol * |expected|, whichever is larger."
    ),
}
"""By `kernelarc.tolerance`."""
_ORACLE: Final = {
    "float64": " Expected values are the reference's in float64.",
    "declared": " Expected values are the reference's in its declared precision.",
}
_VALUES: Final = (
    " Inputs are also drawn scaled, shifted, signed, with outliers, constant within rows and with"
    " other edge values where the problem allows them."
)
_BITWISE: Final = " The same inputs must give the same bits again."


def correctness_view(keys: KernelArcKeys) -> CorrectnessView:
    """Return the tolerance mode and what it means."""
    means = MEANS[keys.tolerance] + _ORACLE[keys.oracle] + _VALUES
    if keys.determinism == "bitwise":
        means += _BITWISE
    return CorrectnessView(tolerance_mode=keys.tolerance, means=means)


def tolerance_view(tolerance: Tolerance, keys: KernelArcKeys) -> ToleranceView:
    """Return a workload's numbers as the mode uses them."""
    every = keys.tolerance != "sol"
    return ToleranceView(
        max_atol=tolerance.max_atol,
        max_rtol=tolerance.max_rtol,
        required_matched_ratio=1.0 if every else tolerance.required_matched_ratio,
        max_error_cap=tolerance.max_error_cap,
    )


def limits_view(problem: Problem, schedule: Schedule) -> LimitsView:
    """Return what a solution's processes are held to."""
    return LimitsView(
        call_seconds=schedule.call_seconds,
        load_seconds=schedule.start_seconds,
        build_seconds=schedule.build_seconds,
        memory_mib=schedule.memory_bytes >> 20,
        threads=problem.definition.kernelarc.threads,
    )
