"""Our own bounds: what a device needs at least for the bytes and operations that were counted; pure.

A bound from a vendor's figures no kernel passes; one from measured rates is the best that was seen, so
that a time below it asks for a better measurement, not for disbelief. Every bound is audited: below
what merely writing the outputs takes it is none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kernelarc_guard.axes import evaluate
from kernelarc_guard.inquiries import WorkCount
from kernelarc_guard.roofs import MEASURED, Roof, Roofs, at_least, datasheet
from kernelarc_guard.rule import Rulers
from kernelarc_mcp.scores.bounds import Bounds, BoundsError

_FASTEST: Final = ("bfloat16", "float16")
"""What an operand's dtype without a roof of its own is held to, if anything."""


@dataclass(frozen=True)
class Roofline:
    """A bound, in milliseconds, and what it rests on."""

    milliseconds: float
    limited_by: str
    """`memory`, or the dtype of the matrix operations."""
    source: str
    date: str
    floor_ms: float
    """What writing the outputs alone takes."""


def roofline(
    work: WorkCount,
    roofs: Roofs,
    bounds: Bounds,
    axes: Mapping[str, int],
    inputs: Iterable[str] = (),
) -> Roofline | None:
    """Return the bound of a workload; None where neither bytes nor operations have a known roof.

    `inputs` are the dtypes of the problem's inputs: a reference may widen them before it multiplies,
    which no kernel has to, so the fastest of these rates counts. What `bounds` says its author counted
    goes before what was counted here. BoundsError where an expression of it cannot be computed.
    """
    moved = work.read_bytes + work.written_bytes
    operations = dict(work.operations or {})
    try:
        if bounds.bytes:
            moved = evaluate(bounds.bytes, axes)
        if bounds.operations:
            operations = {dtype: evaluate(one, axes) for dtype, one in bounds.operations.items()}
    except ValueError as error:
        raise BoundsError(f"kernelarc.bounds: {error}") from None
    sides: list[tuple[float, str, Roof]] = []
    if roofs.memory is not None:
        sides.append((1e3 * moved / roofs.memory.per_second, "memory", roofs.memory))
    widened = [dtype for dtype in inputs if dtype in roofs.matrix]
    for dtype, count in operations.items():
        rates = [
            (roof.per_second, one, roof)
            for one in dict.fromkeys([dtype, *widened])
            if (roof := matrix_roof(roofs, one)) is not None
        ]
        if rates and count:
            rate, charged, roof = max(rates, key=lambda one: one[0])
            sides.append((1e3 * count / rate, charged, roof))
    if not sides:
        return None
    milliseconds, limited_by, roof = max(sides, key=lambda side: side[0])
    return Roofline(
        milliseconds, limited_by, roof.source, roof.date, write_floor_ms(work.written_bytes, roofs)
    )


def matrix_roof(roofs: Roofs, dtype: str) -> Roof | None:
    """Return how fast a device multiplies a dtype; one that it has no rate for is held to bfloat16's.

    None where the device has no rate that could bound it.
    """
    if dtype in roofs.matrix:
        return roofs.matrix[dtype]
    return next((roofs.matrix[one] for one in _FASTEST if one in roofs.matrix), None)


def write_floor_ms(written: int, roofs: Roofs) -> float:
    """Return the milliseconds that writing so many bytes takes, less what a cache may still hold."""
    if roofs.writes is None:
        return 0.0
    return 1e3 * max(0, written - roofs.cache_bytes) / roofs.writes.per_second


def audit(t_sol_ms: float, device: str, written: int) -> str:
    """Return what is wrong with a published bound, or an empty string.

    It is held against writing the outputs at the rate of the device it was published for.
    """
    roofs = datasheet(device)
    if roofs is None:
        return f"not audited: no figures of {device} are known here"
    floor = write_floor_ms(written, roofs)
    if t_sol_ms >= floor:
        return ""
    return (
        f"below the output-write floor: writing {written} bytes takes {roofs.device} at least"
        f" {floor:.4g} ms, the bound is {t_sol_ms:.4g} ms"
    )


def with_rulers(roofs: Roofs, rulers: Rulers | None, at: str, threads: int) -> Roofs:
    """Return the roofs with what a calibration of the same device saw.

    It corrects a vendor's figure that is lower, and takes the place of what was measured at another
    time: so a campaign's bounds rest on its own rulers whenever they are asked for.
    """
    if rulers is None:
        return roofs
    source = f"{MEASURED}rulers of the calibration"
    copies = Roof(per_second=rulers.copy_bytes_per_second * threads, source=source, date=at)
    writes = Roof(per_second=rulers.write_bytes_per_second * threads, source=source, date=at)
    return roofs.model_copy(
        update={"memory": _own(roofs.memory, copies), "writes": _own(roofs.writes, writes)}
    )


def _own(known: Roof | None, ruler: Roof) -> Roof | None:
    if known is not None and known.source.startswith(MEASURED):
        return ruler
    return at_least(known, ruler)
