"""What a right answer is, and the limits of a call: for `get_brief`."""

from collections.abc import Collection
from typing import Final

from kernelarc_guard.definition import KernelArcKeys
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.workload import Tolerance
from kernelarc_mcp.views import CorrectnessView, LimitsView, ToleranceView

MEANS: Final = {
    "strict": (
        "Every element: |error| <= max_atol + max_rtol * |expected|, and |error| <= 16 * e (4 * e for"
        " outputs of 16 bits). e is the largest error in the same row (last dimension) of the reference"
        " in its declared precision, or of adding up one after the other, whichever is larger. Sums in"
        " any order, in several accumulators or by atomics pass."
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
_HALVES: Final = frozenset({"float16", "bfloat16"})
_WIDE: Final = (
    " Refused whatever max_atol says: TF32, bfloat16, half or int8 in what is declared float32."
)
_NARROW: Final = (
    " Tensor-core products of the declared 16-bit values with float32 sums are what is meant; FP8 or"
    " int8 products and partial sums kept in 16 bits are refused."
)
_INTEGERS: Final = " Integer outputs get no relative tolerance."
_VALUES: Final = (
    " Shapes are those of `workloads` alone; values may also come scaled, shifted, signed, with"
    " outliers or constant within rows, where the reference in its declared precision stays {finite}"
    "within a quarter of the tolerance."
)
_FINITE: Final = " Outputs must be finite where the expected ones are."
_NONFINITE: Final = " NaN and infinity must stand where the expected ones do."
_BITWISE: Final = " The same inputs must give the same bits again."
_ANY_BITS: Final = " Bits may differ from call to call: not_deterministic is not looked for."


def correctness_view(
    keys: KernelArcKeys, dtypes: Collection[str] = ("float32",), outputs: Collection[str] = ()
) -> CorrectnessView:
    """Return the tolerance mode and what it means for tensors of these dtypes."""
    means = MEANS[keys.tolerance]
    if keys.tolerance == "strict":
        means += _NARROW if _HALVES & set(dtypes) else ""
        means += _WIDE if "float32" in dtypes else ""
        means += _INTEGERS if any("int" in one for one in outputs) else ""
    means += _ORACLE[keys.oracle] + (_NONFINITE if keys.nonfinite_outputs else _FINITE)
    means += _VALUES.format(finite="" if keys.nonfinite_outputs else "finite and ")
    means += _BITWISE if keys.determinism == "bitwise" else _ANY_BITS
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


def limits_view(problem: Problem, schedule: Schedule, device: str) -> LimitsView:
    """Return what a solution's processes are held to."""
    mib = schedule.memory_bytes >> 20
    if device.startswith("cpu"):
        memory = f"{mib} MiB of address space, each process and the compiler"
    else:
        memory = f"compiler {mib} MiB; on the device what the problem's tensors and the guard's checks leave"
    return LimitsView(
        call_seconds=schedule.call_seconds,
        load_seconds=schedule.start_seconds,
        build_seconds=schedule.build_seconds,
        memory=memory,
        threads=problem.definition.kernelarc.threads,
    )
