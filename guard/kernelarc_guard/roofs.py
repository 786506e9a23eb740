"""What devices can do at most: bytes and matrix operations a second, each with its source; light.

A vendor's figure is what no kernel passes. A measured one is only the best that the guard saw.
"""

from typing import Final

from kernelarc_guard.model import Model

MEASURED: Final = "measured: "
"""What the source of a rate that was measured begins with."""


class Roof(Model):
    """One limit of a device."""

    per_second: float
    source: str
    date: str = ""
    """ISO 8601; of a vendor's figure when it was read."""


class Roofs(Model):
    """The limits of one device, or of the threads that a problem may use of it."""

    device: str
    """Its name, as the vendor gives it."""
    memory: Roof | None
    """Bytes a second, read and written together; None: not known."""
    writes: Roof | None
    """Bytes a second that are written; None: not known."""
    matrix: dict[str, Roof]
    """Dtype -> operations a second, a multiply-add being two."""
    cache_bytes: int = 0
    """What may still lie in the last cache when a call has ended, of what it wrote."""


_DTYPES: Final = (
    "float64",
    "float32",
    "bfloat16",
    "float16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "float4_e2m1fn_x2",
)
_READ: Final = "2026-11-30"
# Dense rates. For float32 that of TF32, which a tolerance may allow; float64 on matrix units.
_DATASHEETS: Final = {
    # name: source, memory, cache, rates by dtype as above (0: it has none)
    "A100-SXM4-80GB": (
        "NVIDIA A100 datasheet (SXM, 80 GB)",
        2.039e12,
        40 << 20,
        (19.5e12, 156e12, 312e12, 312e12, 0.0, 0.0, 624e12, 0.0),
    ),
    "H100 80GB HBM3": (
        "NVIDIA H100 datasheet (SXM)",
        3.35e12,
        50 << 20,
        (67e12, 494.7e12, 989.4e12, 989.4e12, 1978.9e12, 1978.9e12, 1978.9e12, 0.0),
    ),
    "H200": (
        "NVIDIA H200 datasheet (SXM)",
        4.8e12,
        50 << 20,
        (67e12, 494.7e12, 989.4e12, 989.4e12, 1978.9e12, 1978.9e12, 1978.9e12, 0.0),
    ),
    "B200": (
        "NVIDIA HGX B200 datasheet, one of eight GPUs",
        8e12,
        126 << 20,
        (37e12, 1125e12, 2250e12, 2250e12, 4500e12, 4500e12, 4500e12, 9000e12),
    ),
}


def datasheet(device: str) -> Roofs | None:
    """Return the vendor's figures of a device by its name, None where they are not known here."""
    bare = device.removeprefix("NVIDIA ").strip()
    found = _DATASHEETS.get(bare)
    if found is None:
        return None
    source, memory, cache, rates = found
    roof = Roof(per_second=memory, source=source, date=_READ)
    return Roofs(
        device=f"NVIDIA {bare}",
        memory=roof,
        writes=roof,
        matrix={
            dtype: Roof(per_second=rate, source=source, date=_READ)
            for dtype, rate in zip(_DTYPES, rates, strict=True)
            if rate
        },
        cache_bytes=cache,
    )


def at_least(one: Roof | None, other: Roof | None) -> Roof | None:
    """Return the higher of two roofs: what was seen corrects a figure that is too low."""
    if one is None or other is None:
        return one or other
    return one if one.per_second >= other.per_second else other
