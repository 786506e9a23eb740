"""The light C binding: ``extern "C" int run(const DLTensor*..., DLTensor*...)`` through ctypes.

Structure layout after the DLPack specification, version 1 (`DLTensor`).
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    """One tensor as C sees it; `strides` is never null."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_CPU, _CUDA = 1, 2
_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6


def as_dltensor(tensor: torch.Tensor) -> DLTensor:
    """Describe a tensor of a CPU or a GPU; the result keeps the tensor alive."""
    dims = tensor.dim()
    dtype = tensor.dtype
    code = (
        _BOOL
        if dtype is torch.bool
        else _BFLOAT
        if dtype is torch.bfloat16
        else _FLOAT
        if dtype.is_floating_point
        else _UINT
        if dtype is torch.uint8
        else _INT
    )
    described = DLTensor(
        tensor.data_ptr(),
        _Device(*((_CUDA, tensor.get_device()) if tensor.is_cuda else (_CPU, 0))),
        dims,
        _DataType(code, tensor.element_size() * 8, 1),
        (ctypes.c_int64 * max(dims, 1))(*tensor.shape),
        (ctypes.c_int64 * max(dims, 1))(*tensor.stride()),
        0,
    )
    described.keep = tensor
    return described


def load_function(library: Path, name: str) -> Callable[..., Any]:
    """Load `name` from a shared library; the result raises RuntimeError on a non-zero return."""
    function = getattr(ctypes.CDLL(str(library)), name)
    function.restype = ctypes.c_int

    def call(*args: Any) -> None:
        status = function(*[_argument(one) for one in args])
        if status != 0:
            raise RuntimeError(f"{name} returned {status}; 0 means success")

    return call


def _argument(value: Any) -> Any:
    if isinstance(value, DLTensor):
        return ctypes.byref(value)
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(int(value))
