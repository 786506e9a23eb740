"""Reading one tensor of a safetensors file (imports torch).

Format: 8 bytes of header length, a JSON header `name -> {dtype, shape, data_offsets}`, raw data.
"""

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import torch

from kernelarc_guard.axes import MAX_EXTENT
from kernelarc_guard.control import MAX_DIMS
from kernelarc_guard.formats.blobs import find_file

__all__ = ["find_file", "load_tensor"]

_POINTER: Final = b"version https://git-lfs"
_MAX_HEADER: Final = 16 << 20
_DTYPES: Final = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def load_tensor(path: Path, key: str) -> torch.Tensor:
    """Return a fresh copy of tensor `key`; ValueError in one line for a file that has none."""
    try:
        stat = path.stat()
        return _load(path, key, stat.st_mtime_ns, stat.st_size).clone()
    except OSError as error:
        raise ValueError(f"{path.name}: cannot be read: {error.strerror}") from None


@lru_cache(maxsize=16)
def _load(path: Path, key: str, _modified: int, size: int) -> torch.Tensor:
    with path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            raise ValueError(
                f"{path.name}: is a pointer of Git LFS; fetch the file with git lfs pull"
            )
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_MAX_HEADER, size - 8):
            raise ValueError(f"{path.name}: expected a safetensors header")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise ValueError(f"{path.name}: expected a safetensors header in JSON") from None
        if not isinstance(header, dict) or not isinstance(header.get(key), dict):
            raise ValueError(f"{path.name}: expected a tensor called {key!r}")
        dtype, shape, begin, end = _entry(path, key, header[key], size - 8 - length)
        file.seek(8 + length + begin)
        data = bytearray(file.read(end - begin))
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def _entry(
    path: Path, key: str, entry: dict[str, Any], data_bytes: int
) -> tuple[torch.dtype, tuple[int, ...], int, int]:
    dtype = _DTYPES.get(str(entry.get("dtype")))
    shape, offsets = _sizes(entry.get("shape")), _sizes(entry.get("data_offsets"))
    if dtype is None or shape is None or offsets is None or len(offsets) != 2:
        raise ValueError(f"{path.name}: tensor {key!r} has a header this reader does not know")
    begin, end = offsets
    if math.prod(max(one, 1) for one in shape) > MAX_EXTENT:
        raise ValueError(f"{path.name}: tensor {key!r} has more than {MAX_EXTENT} elements")
    if not begin <= end <= data_bytes or math.prod(shape) * dtype.itemsize != end - begin:
        raise ValueError(f"{path.name}: tensor {key!r} does not fit the file")
    return dtype, shape, begin, end


def _sizes(value: Any) -> tuple[int, ...] | None:
    """Return a list of lengths, None where it is none that a tensor can have."""
    if (
        isinstance(value, list)
        and len(value) <= MAX_DIMS
        and all(type(one) is int and 0 <= one <= MAX_EXTENT for one in value)
    ):
        return tuple(value)
    return None
