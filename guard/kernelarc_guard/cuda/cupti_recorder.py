"""Records of what a device did, from CUPTI in this process; light until one is made.

What it says is only as honest as the process that it is in.
"""

import ctypes
import importlib.util
from dataclasses import dataclass
from typing import Any, Final, Literal

_BUFFER_BYTES: Final = 8 << 20
_NO_LIMIT: Final = 0
_FORCED: Final = 1
"""CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: also buffers that are not full, and records that are not complete."""
_WAYS: Final = {1: "host to device", 2: "device to host", 8: "device to device"}
"""By CUpti_ActivityMemcpyKind."""

ABSENT: Final = "cupti-python is not installed in the guard's environment (extra cuda13)"


class NoCupti(Exception):
    """CUPTI records nothing in this process, and why."""


@dataclass(frozen=True)
class Record:
    """A kernel, copy or fill of the device, or a call of the runtime or driver; nanoseconds of one clock."""

    kind: Literal["kernel", "copy", "fill", "call"]
    name: str
    """As CUPTI has it: of a C++ kernel mangled; of a call empty."""
    begin: int
    """0 where CUPTI has no time of it."""
    end: int
    correlation: int
    """The same of a call and of what it launched."""
    stream: int = 0
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None


def installed() -> bool:
    """Say whether this environment has cupti-python; whether it works here is not known by that."""
    return importlib.util.find_spec("cupti") is not None


class Recorder:
    """Collects records between `start` and `stop`. One in a process."""

    def __init__(self, *, calls: bool = False) -> None:
        """Have CUPTI trace kernels, copies and fills, and with `calls` the runtime's and driver's calls.

        Best before the process has a context, and before it is held. Raises NoCupti.
        """
        self._records: list[Record] = []
        self._wanted = False
        try:
            from cupti import cupti
        except (ImportError, OSError, RuntimeError) as error:
            raise NoCupti(f"cupti-python cannot be loaded: {error}") from error
        self._cupti: Any = cupti
        kinds: Any = cupti.ActivityKind
        self._device = {
            int(kinds.CONCURRENT_KERNEL): _kernel,
            int(kinds.MEMCPY): _copy,
            int(kinds.MEMSET): _fill,
        }
        self._calls = {int(kinds.RUNTIME), int(kinds.DRIVER)} if calls else set()
        self._ask("activity_register_callbacks", lambda: (_BUFFER_BYTES, _NO_LIMIT), self._keep)
        for kind in (*self._device, *self._calls):
            self._ask("activity_enable", kind)

    def now(self) -> int:
        """Return the time on the clock of the records, in nanoseconds."""
        return int(self._ask("get_timestamp"))

    def flush(self) -> None:
        """Have CUPTI hand over what it holds."""
        self._ask("activity_flush_all", _FORCED)

    def start(self) -> None:
        """Forget what was recorded so far; the device must be idle."""
        self.flush()
        self._records.clear()
        self._wanted = True

    def stop(self) -> list[Record]:
        """Return what was recorded since `start`, in order; the device must be idle."""
        self.flush()
        self._wanted = False
        return sorted(self._records, key=lambda one: (one.begin, one.end))

    def _ask(self, what: str, *arguments: Any) -> Any:
        """Call a function of CUPTI; raises NoCupti where it refuses, or there is no driver."""
        try:
            return getattr(self._cupti, what)(*arguments)
        except self._cupti.cuptiError as error:
            raise NoCupti(f"CUPTI refuses {what}: {error}") from error
        except (OSError, RuntimeError) as error:
            # Its library and the driver's are loaded by the first call.
            raise NoCupti(f"CUPTI cannot be used: {error}") from error

    def _keep(self, activities: list[Any]) -> None:
        """Copy what is in a buffer, which is CUPTI's again when this returns."""
        if not self._wanted:
            return
        for one in activities:
            kind = int(one.kind)
            if kind in self._device:
                self._records.append(self._device[kind](one))
            elif kind in self._calls:
                self._records.append(_call(one))


def plain_name(name: str) -> str:
    """Return a kernel's name as it is in the source, where it is a mangled one of C++."""
    if not name.startswith("_Z"):
        return name
    library = ctypes.CDLL("libstdc++.so.6")
    demangle, free = library.__cxa_demangle, ctypes.CDLL(None).free
    demangle.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    status = ctypes.c_int()
    found = demangle(name.encode(), None, None, ctypes.byref(status))
    if not found:
        return name
    try:
        return ctypes.string_at(found).decode("utf-8", "replace")
    finally:
        free(found)


def _kernel(one: Any) -> Record:
    return Record(
        "kernel",
        one.name or "a kernel without a name",
        int(one.start),
        int(one.end),
        int(one.correlation_id),
        int(one.stream_id),
        (int(one.grid_x), int(one.grid_y), int(one.grid_z)),
        (int(one.block_x), int(one.block_y), int(one.block_z)),
    )


def _copy(one: Any) -> Record:
    return _moved("copy", f"copy {_WAYS.get(int(one.copy_kind), 'of another kind')}", one)


def _fill(one: Any) -> Record:
    return _moved("fill", "fill", one)


def _moved(kind: Literal["copy", "fill"], name: str, one: Any) -> Record:
    return Record(
        kind, name, int(one.start), int(one.end), int(one.correlation_id), int(one.stream_id)
    )


def _call(one: Any) -> Record:
    return Record("call", "", int(one.start), int(one.end), int(one.correlation_id))
