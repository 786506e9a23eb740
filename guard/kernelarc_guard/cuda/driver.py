"""CUDA's driver interface through ctypes: only what the guard calls. Standard library only.

Nothing is loaded before the first call, so that importing this needs no NVIDIA driver.
"""

import ctypes
from ctypes import POINTER, c_char, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import lru_cache
from typing import Any, Final

HOST_FLAGS: Final = 1 | 2
"""cuMemHostRegister: portable and mapped."""
WAIT_GEQ: Final = 0
_POSIX_FD: Final = 1
_PINNED: Final = 1
_ON_DEVICE: Final = 1
_READ, _READ_WRITE = 1, 3
_NON_BLOCKING: Final = 1
_CAPABILITY: Final = (75, 76)
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""
OUT_OF_MEMORY: Final = 2
NOT_READY: Final = 600
"""The status of an event or stream that has not finished."""

_SIGNATURES: Final[dict[str, list[Any]]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuDeviceGetCount": [POINTER(c_int)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetName": [c_void_p, c_int, c_int],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDeviceGetUuid_v2": [c_void_p, c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuDevicePrimaryCtxSetFlags_v2": [c_int, c_uint],
    "cuCtxSetCurrent": [c_void_p],
    "cuCtxSynchronize": [],
    "cuCtxSetLimit": [c_int, c_size_t],
    "cuCtxGetLimit": [POINTER(c_size_t), c_int],
    "cuCtxResetPersistingL2Cache": [],
    "cuMemGetInfo_v2": [POINTER(c_size_t), POINTER(c_size_t)],
    "cuMemGetAllocationGranularity": [POINTER(c_size_t), c_void_p, c_int],
    "cuMemCreate": [POINTER(c_uint64), c_size_t, c_void_p, c_uint64],
    "cuMemExportToShareableHandle": [c_void_p, c_uint64, c_int, c_uint64],
    "cuMemImportFromShareableHandle": [POINTER(c_uint64), c_void_p, c_int],
    "cuMemAddressReserve": [POINTER(c_uint64), c_size_t, c_size_t, c_uint64, c_uint64],
    "cuMemAddressFree": [c_uint64, c_size_t],
    "cuMemMap": [c_uint64, c_size_t, c_size_t, c_uint64, c_uint64],
    "cuMemUnmap": [c_uint64, c_size_t],
    "cuMemSetAccess": [c_uint64, c_size_t, c_void_p, c_size_t],
    "cuMemRelease": [c_uint64],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemAllocHost_v2": [POINTER(c_void_p), c_size_t],
    "cuMemFreeHost": [c_void_p],
    "cuMemHostRegister_v2": [c_void_p, c_size_t, c_uint],
    "cuMemHostUnregister": [c_void_p],
    "cuMemHostGetDevicePointer_v2": [POINTER(c_uint64), c_void_p, c_uint],
    "cuMemcpyHtoDAsync_v2": [c_uint64, c_void_p, c_size_t, c_void_p],
    "cuMemcpyDtoHAsync_v2": [c_void_p, c_uint64, c_size_t, c_void_p],
    "cuMemcpyDtoDAsync_v2": [c_uint64, c_uint64, c_size_t, c_void_p],
    "cuMemsetD32Async": [c_uint64, c_uint, c_size_t, c_void_p],
    "cuStreamCreate": [POINTER(c_void_p), c_uint],
    "cuStreamDestroy_v2": [c_void_p],
    "cuStreamSynchronize": [c_void_p],
    "cuStreamQuery": [c_void_p],
    "cuStreamWaitValue32_v2": [c_void_p, c_uint64, c_uint, c_uint],
    "cuStreamWriteValue32_v2": [c_void_p, c_uint64, c_uint, c_uint],
    "cuStreamWaitEvent": [c_void_p, c_void_p, c_uint],
    "cuStreamSetAttribute": [c_void_p, c_int, c_void_p],
    "cuEventCreate": [POINTER(c_void_p), c_uint],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventSynchronize": [c_void_p],
    "cuEventElapsedTime_v2": [POINTER(c_float), c_void_p, c_void_p],
    "cuModuleLoadData": [POINTER(c_void_p), c_void_p],
    "cuModuleGetFunction": [POINTER(c_void_p), c_void_p, c_void_p],
    "cuLaunchKernel": [c_void_p] + [c_uint] * 7 + [c_void_p, c_void_p, c_void_p],
    "cuGetErrorName": [c_int, POINTER(c_void_p)],
    "cuGetErrorString": [c_int, POINTER(c_void_p)],
}


class CudaError(RuntimeError):
    """A call of the driver failed; `status` is its code."""

    def __init__(self, function: str, status: int, text: str) -> None:
        super().__init__(f"{function}: {text}")
        self.status = status


class NoDriver(RuntimeError):
    """This machine has no NVIDIA driver that can be loaded."""


class _Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class _Flags(ctypes.Structure):
    _fields_ = [
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class _AllocationProp(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("location", _Location),
        ("win32", c_void_p),
        ("flags", _Flags),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", c_int)]


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoDriver(f"libcuda.so.1 cannot be loaded: {error}") from None
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise NoDriver(f"libcuda.so.1 is too old: it lacks {name}")
        function.argtypes = arguments
        function.restype = c_int
    return library


def status_of(function: str, *arguments: Any) -> int:
    """Call a function of the driver and return its status, 0 for success."""
    status: int = getattr(_library(), function)(*arguments)
    return status


def call(function: str, *arguments: Any) -> None:
    """Call a function of the driver; raises CudaError where it fails."""
    status = status_of(function, *arguments)
    if status:
        raise CudaError(function, status, _describe(status))


def _describe(status: int) -> str:
    told = []
    for name in ("cuGetErrorName", "cuGetErrorString"):
        text = c_void_p()
        if status_of(name, status, ctypes.byref(text)) == 0 and text.value:
            told.append(ctypes.string_at(text.value).decode("ascii", "replace"))
    return f"{': '.join(told) or 'unknown error'} ({status})"


def device_count() -> int:
    """Return how many NVIDIA devices this process sees; raises NoDriver or CudaError."""
    call("cuInit", 0)
    count = c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    return count.value


def cuda_version() -> str:
    """Return the newest CUDA that the driver can serve, such as 13.0."""
    number = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(number))
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def device_name(device: int) -> str:
    """Return a device's name."""
    name = (c_char * 256)()
    call("cuDeviceGetName", name, 256, device)
    return name.value.decode("utf-8", "replace")


def device_uuid(device: int) -> str:
    """Return a device's UUID as ``GPU-...``, as nvidia-smi prints it."""
    raw = (c_char * 16)()
    call("cuDeviceGetUuid_v2", raw, device)
    text = bytes(raw).hex()
    parts = (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
    return "GPU-" + "-".join(parts)


def attribute(device: int, number: int) -> int:
    """Return one attribute of a device, by its number in cuda.h."""
    value = c_int()
    call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
    return value.value


def architecture(device: int) -> str:
    """Return the device's own architecture, with what only it has from 9.0 on, as in ``90a``."""
    major, minor = (attribute(device, one) for one in _CAPABILITY)
    return f"{major}{minor}" + ("a" if major >= 9 else "")


def open_context(device: int) -> None:
    """Make the device's primary context, the one torch uses, current in this thread."""
    call("cuInit", 0)
    context = c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)


def free_bytes() -> tuple[int, int]:
    """Return the device's free and total memory."""
    free, total = c_size_t(), c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def new_stream() -> int:
    """Return a new stream that does not wait for the default one."""
    stream = c_void_p()
    call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
    assert stream.value is not None
    return stream.value


def _prop(device: int) -> _AllocationProp:
    return _AllocationProp(_PINNED, _POSIX_FD, _Location(_ON_DEVICE, device), None, _Flags())


def granularity(device: int) -> int:
    """Return what the size of an allocation must be a multiple of."""
    value = c_size_t()
    prop = _prop(device)
    call("cuMemGetAllocationGranularity", ctypes.byref(value), ctypes.byref(prop), 0)
    return value.value


class Allocation:
    """Physical memory of a device, mapped here; its descriptor can be given to another process."""

    created_bytes = 0
    """What this process has created and not closed."""

    def __init__(self, handle: int, size: int, device: int, writable: bool) -> None:
        """Map memory known by `handle`; use `create` or `from_fd`."""
        self.size = size
        self._own = False
        self._handle = handle
        address = c_uint64()
        call("cuMemAddressReserve", ctypes.byref(address), size, 0, 0, 0)
        self.address = address.value
        call("cuMemMap", self.address, size, 0, handle, 0)
        access = _Access(_Location(_ON_DEVICE, device), _READ_WRITE if writable else _READ)
        call("cuMemSetAccess", self.address, size, ctypes.byref(access), 1)

    @classmethod
    def create(cls, size: int, device: int) -> "Allocation":
        """Allocate at least `size` bytes, rounded up to the granularity."""
        unit = granularity(device)
        size = max(-(-size // unit), 1) * unit
        handle = c_uint64()
        prop = _prop(device)
        call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(prop), 0)
        made = cls(handle.value, size, device, writable=True)
        made._own = True
        Allocation.created_bytes += size
        return made

    @classmethod
    def from_fd(cls, fd: int, size: int, device: int, writable: bool) -> "Allocation":
        """Map another process's memory; the descriptor stays the caller's."""
        handle = c_uint64()
        call("cuMemImportFromShareableHandle", ctypes.byref(handle), c_void_p(fd), _POSIX_FD)
        return cls(handle.value, size, device, writable)

    def export(self) -> int:
        """Return a new descriptor of this memory, for another process."""
        fd = c_int()
        call("cuMemExportToShareableHandle", ctypes.byref(fd), self._handle, _POSIX_FD, 0)
        return fd.value

    def close(self) -> None:
        """Unmap it; the memory is free once no process maps it."""
        call("cuMemUnmap", self.address, self.size)
        call("cuMemAddressFree", self.address, self.size)
        call("cuMemRelease", self._handle)
        if self._own:
            Allocation.created_bytes -= self.size
