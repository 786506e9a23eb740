"""Which bottleneck a call has, from what counters or times say; pure.

The classes tell what to change next, not how good a kernel is: launch-bound (fewer, larger kernels),
bandwidth-bound (move fewer bytes), matrix-bound (it is where it should be), arithmetic-bound (use matrix
units, or do less), latency-bound (have more in flight).
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kernelarc_guard.profile_model import Bottleneck, KernelFacts

SHORT_US: Final = 8.0
"""A launch shorter than this is mostly starting and ending."""
_IDLE: Final = 40.0
"""Percent of a roof below which a short launch did not come near it."""
_NEAR: Final = 60.0
"""Percent of a roof from which on it is what holds a kernel up."""
_MATRIX_NEAR: Final = 50.0
"""The same for matrix units, which no kernel keeps busy all the time."""
_BETWEEN: Final = 0.6
"""Less of a call in its kernels than this is time between them."""
_CPU_NEAR: Final = 0.5


class Found(NamedTuple):
    """A class, and the numbers that say so in one sentence."""

    bottleneck: Bottleneck
    why: str


def of_kernels(kernels: Sequence[KernelFacts], call_us: float | None) -> Found:
    """Return the bottleneck of a call from its kernels, longest first.

    `call_us` is what the call was measured to take, where it was.
    """
    whole = sum(one.microseconds for one in kernels)
    launches = sum(one.launches for one in kernels)
    if not launches or not whole:
        return Found("unknown", "No kernel was profiled.")
    main = kernels[0]
    matrix, compute = main.matrix_percent or 0.0, main.compute_percent or 0.0
    dram, memory = main.dram_percent or 0.0, main.memory_percent or 0.0
    mean = whole / launches
    shape = f"{launches} launches of {mean:.1f} us on average, the longest kernel at"
    shape += f" {dram:.0f} % of DRAM and {compute:.0f} % of the multiprocessors"
    if mean < SHORT_US and max(dram, compute, matrix) < _IDLE:
        return Found("launch-bound", f"{shape}: starting and ending dominate.")
    if call_us is not None and whole < _BETWEEN * call_us:
        said = f"The kernels take {whole:.1f} of the call's {call_us:.1f} us; {shape}."
        return Found("launch-bound", said)
    if matrix >= _MATRIX_NEAR and matrix >= max(dram, _MATRIX_NEAR):
        return Found("matrix-bound", f"Matrix units are busy {matrix:.0f} % of the time.")
    if dram >= _NEAR and dram >= compute - 10:
        return Found("bandwidth-bound", f"DRAM is at {dram:.0f} % of its peak.")
    if memory >= _NEAR and memory > compute:
        level = "L2" if (main.l2_percent or 0.0) >= memory - 5 else "L1 and shared memory"
        said = f"{level} at {memory:.0f} % of the peak, DRAM at {dram:.0f} %."
        return Found("bandwidth-bound", said)
    if compute >= _NEAR:
        said = f"The multiprocessors are at {compute:.0f} %, matrix units at {matrix:.0f} %."
        return Found("arithmetic-bound", said)
    stalls = ", ".join(main.stalls) or "no stall was recorded"
    said = f"DRAM {dram:.0f} %, multiprocessors {compute:.0f} %, matrix units {matrix:.0f} %:"
    return Found("latency-bound", f"{said} no roof is near; warps wait for {stalls}.")


def of_shares(memory: float | None, matrix: float | None, call_us: float, empty_us: float) -> Found:
    """Return the bottleneck of a call on a CPU, from shares (of 1) of the rates measured there."""
    if call_us < 3 * empty_us:
        said = (
            f"A call takes {call_us:.1f} us, waking a process and nothing else {empty_us:.1f} us."
        )
        return Found("launch-bound", said)
    if memory is None and matrix is None:
        return Found("unknown", "Neither bytes nor operations could be counted.")
    if (matrix or 0.0) >= max(_CPU_NEAR, memory or 0.0):
        return Found("matrix-bound", f"{matrix:.0%} of the rate of a matrix product here.")
    if (memory or 0.0) >= _CPU_NEAR:
        return Found("bandwidth-bound", f"{memory:.0%} of what copying memory reaches here.")
    said = " and ".join(
        f"{share:.1%} of {what}"
        for share, what in ((memory, "a copy's rate"), (matrix, "a matrix product's rate"))
        if share is not None
    )
    told = "whether it waits or computes a CPU does not tell without its counters"
    return Found("unknown", f"It reaches {said}: far from both; {told}.")


def shares(kernels: Sequence[KernelFacts]) -> dict[str, float]:
    """Return the share (of 1) of each roof over all kernels, weighted by their time."""
    whole = sum(one.microseconds for one in kernels)
    roofs: dict[str, Callable[[KernelFacts], float | None]] = {
        "dram": lambda one: one.dram_percent,
        "memory": lambda one: one.memory_percent,
        "compute": lambda one: one.compute_percent,
        "matrix": lambda one: one.matrix_percent,
    }
    found = {}
    for name, percent in roofs.items():
        known = [(p, one.microseconds) for one in kernels if (p := percent(one)) is not None]
        if known and whole:
            found[name] = round(sum(p * us for p, us in known) / whole / 100, 3)
    return found
