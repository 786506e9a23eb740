"""A runner's loop in native code, for solutions with the light C binding (imports torch).

The interpreter's part of a window costs tens of microseconds, and a native solution could skip it by
never returning from a call. `native_loop.cpp` is built into such solutions, so that all skip it.
"""

import ctypes
from pathlib import Path
from typing import Any, Final

from kernelarc_guard import control
from kernelarc_guard.dltensor import DLTensor

_MOST_SCALARS: Final = 8
_MOST_ARGUMENTS: Final = 20
"""What the loop can pass; solutions with more are called by the interpreter."""


class _Argument(ctypes.Structure):
    _fields_ = [("scalar", ctypes.c_int64), ("tensor", ctypes.c_void_p)]


class _Call(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int64), ("arguments", ctypes.POINTER(_Argument))]


class NativeLoop:
    """The loop of one loaded solution."""

    def __init__(
        self, entry: Path, name: str, page: control.ControlPage, workloads: int, planted: float
    ) -> None:
        """Find loop and solution in the library; `planted` is the part that each call takes longer."""
        library = ctypes.CDLL(str(entry))
        self._name = name
        self._loop = library.kernelarc_loop
        self._loop.restype = ctypes.c_int
        self._page = ctypes.c_char.from_buffer(page.page)
        self._function = ctypes.cast(getattr(library, name), ctypes.c_void_p)
        self._calls = (_Call * workloads)()
        self._planted = ctypes.c_double(planted)
        self._keep: dict[int, Any] = {}

    def take(self, workload: int, args: list[Any]) -> None:
        """Take over a workload's arguments; what is no tensor is a scalar on the control page."""
        arguments = (_Argument * max(len(args), 1))()
        scalars = 0
        for index, one in enumerate(args):
            if isinstance(one, DLTensor):
                arguments[index] = _Argument(-1, ctypes.addressof(one))
            else:
                arguments[index] = _Argument(scalars, None)
                scalars += 1
        self._keep[workload] = (arguments, list(args))
        self._calls[workload] = _Call(len(args), ctypes.cast(arguments, ctypes.POINTER(_Argument)))

    def serve(self) -> str | None:
        """Stop and serve plain calls until another order comes; what a solution returned, if not 0."""
        status = self._loop(
            ctypes.byref(self._page),
            self._function,
            self._calls,
            ctypes.c_int64(control.SCALARS_AT),
            ctypes.c_int64(control.DONE_AT),
            self._planted,
        )
        return f"RuntimeError: {self._name} returned {status}; 0 means success" if status else None


def passes(args: list[Any]) -> bool:
    """Say whether the loop can pass these arguments."""
    scalars = sum(not isinstance(one, DLTensor) for one in args)
    return scalars <= _MOST_SCALARS and len(args) <= _MOST_ARGUMENTS
