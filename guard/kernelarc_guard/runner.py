"""The body of a runner: untrusted from the moment it loads a solution (imports torch, inherited).

It maps what the guard gives it, loads the solution, and then stops itself after every call. A stop
is "done", the seal and the wait in one: nothing in this process runs until the guard wakes it.
"""

import importlib.util
import math
import mmap
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.dlpack

from kernelarc_guard import control
from kernelarc_guard.confinement import Confinement
from kernelarc_guard.frames import FrameError, recv_frame, send_frame
from kernelarc_guard.limits import (
    die_with_parent,
    limit_runner,
    prefer_for_killing,
    set_dumpable,
)
from kernelarc_guard.surroundings import CACHES
from kernelarc_guard.warming import WARMED_FOR
from kernelarc_guard.watch import Watch

if TYPE_CHECKING:
    from kernelarc_guard.cuda.runner import CudaSide

_CODES = {getattr(torch, name): code for code, name in enumerate(control.DTYPES)}
_FILE_BYTES = 512 << 20
_IDLE_SECONDS = 0.15
_ERROR_CHARACTERS = 8000


def run(channel: socket.socket, confinement: Confinement, label: int) -> None:
    """Serve one guard over `channel` until told to quit; never returns.

    `label` marks all that it starts. Where there is a GPU its context is opened first, before
    anybody has said what this runner is for: that takes longest.
    """
    die_with_parent()
    if WARMED_FOR in os.environ:
        from kernelarc_guard.cuda.runner import open_device

        try:
            open_device()
        except RuntimeError:
            traceback.print_exc()
            os._exit(71)
        send_frame(channel, {"opened": True})
    try:
        setup, fds = recv_frame(channel)
    except FrameError:
        os._exit(0)  # it was not needed
    scratch = setup["scratch"]
    control_fd, log_fd, *set_fds = fds
    side: CudaSide | None = None
    _own_descriptors(log_fd)
    page = control.ControlPage(mmap.mmap(control_fd, control.SIZE))
    if setup.get("device") == "cuda":
        # Before anything is given up: opening a context needs more than using one.
        from kernelarc_guard.cuda import runner as on_device

        side = on_device.CudaSide(set_fds[0], set_fds[1:], setup["sets"], setup.get("waits_by"))
        sets = side.sets
        send_frame(channel, {"mapped": True})
        if setup["empty_windows"]:
            _call_nothing(page, side)
        try:
            # Nothing of a solution before the guard has measured all arms' so.
            told, _ = recv_frame(channel)
        except FrameError:
            os._exit(0)
        side.take(told)
    else:
        sets = [_map_set(fd, one) for fd, one in zip(set_fds, setup["sets"], strict=True)]
        for fd in set_fds:
            os.close(fd)
    os.close(control_fd)
    if setup["threads"] > 1:
        torch.set_num_threads(setup["threads"])
    _move_to(scratch)
    limit_runner(setup["memory_bytes"], _FILE_BYTES)
    prefer_for_killing()
    set_dumpable(True)  # the warden reads returned tensors from the stopped process
    confinement.enter(setup["folder"], scratch, label)
    watch = Watch()
    try:
        function = load_solution(setup)
    except BaseException as error:  # noqa: BLE001 - whatever a solution raises is its own failure
        send_frame(channel, {"error": _describe_error(error)})
        os._exit(1)
    if setup["planted"]:
        function = _slowed(function, setup["planted"])
    send_frame(channel, {"loaded": True})
    calls = [_Call(setup, one, mapped) for one, mapped in zip(setup["sets"], sets, strict=True)]
    _serve(
        page,
        function,
        calls,
        watch,
        not setup["destination_passing"],
        _native_loop(setup, page, calls) if side is None else None,
        side,
    )


def _serve(
    page: control.ControlPage,
    function: Callable[..., Any],
    calls: list["_Call"],
    watch: Watch,
    returns: bool,
    loop: Callable[[], str | None] | None,
    side: "CudaSide | None",
) -> None:
    me = os.getpid()
    alive: list[Any] = []
    place = "cpu" if side is None else "cuda"
    while True:
        failed = None
        if loop is not None:
            failed = loop()
        else:
            os.kill(me, signal.SIGSTOP)
        order = page.read_order()
        if failed is not None:
            page.write_error(failed)
            page.report(order.call, control.RAISED, 0)
            continue
        if order.command == control.QUIT:
            os._exit(0)
        if order.command == control.IDLE:
            _idle()
            page.write_error("\n".join(watch.changes()))
            page.report(order.call, control.DONE, 0)
            continue
        if order.command == control.EMPTY:
            for _ in range(order.workload):
                os.kill(me, signal.SIGSTOP)
            page.report(order.call, control.DONE, 0)
            continue
        if order.command == control.SYNC and side is not None:
            _wait(page, order, side)
            continue
        call = calls[order.workload]
        if order.flags & control.RENEW:
            call.renew()
        call.refresh(page, order.rewritten)
        try:
            if side is not None:
                side.before(order)
            result = function(*call.args)
            if side is not None:
                side.after(order, result if returns else None)
            count = _report_outputs(page, result, place) if returns else 0
            # The one before lives until here, so that a new result cannot take its place.
            if not order.flags & control.HOLD:
                alive.clear()
            alive.append(result)
            page.report(order.call, control.DONE, count)
        except BaseException as error:  # noqa: BLE001 - whatever a solution raises is its own failure
            page.write_error(_describe_error(error))
            page.report(order.call, control.RAISED, 0)


def _call_nothing(page: control.ControlPage, side: "CudaSide") -> None:
    """Call the smallest kernel as `_serve` calls a solution, until woken without a new order."""
    me, last = os.getpid(), 0
    while True:
        os.kill(me, signal.SIGSTOP)
        order = page.read_order()
        if order.call == last:
            return
        last = order.call
        side.before(order)
        side.touch()
        side.after(order)
        page.report(order.call, control.DONE, 0)


def _native_loop(
    setup: dict[str, Any], page: control.ControlPage, calls: list["_Call"]
) -> Callable[[], str | None] | None:
    """Return what stops and serves plain calls without the interpreter, for solutions that have it."""
    if setup["binding"] == "dlpack" and setup["destination_passing"]:
        from kernelarc_guard.native_loop import NativeLoop, passes

        if all(passes(call.args) for call in calls):
            entry, name = Path(setup["entry"]), setup["function"]
            loop = NativeLoop(entry, name, page, len(calls), math.expm1(setup["planted"] / 100))
            for index, call in enumerate(calls):
                call.told = partial(loop.take, index)
                call.told(call.args)
            return loop.serve
    return None


def _wait(page: control.ControlPage, order: control.Order, side: "CudaSide") -> None:
    try:
        side.wait()
    except RuntimeError as error:
        page.write_error(_describe_error(error))
        page.report(order.call, control.RAISED, 0)
    else:
        page.report(order.call, control.DONE, 0)


def _idle() -> None:
    end = time.monotonic() + _IDLE_SECONDS
    while time.monotonic() < end:
        time.sleep(0.005)


def _report_outputs(page: control.ControlPage, value: Any, place: str = "cpu") -> int:
    if isinstance(value, dict):
        value = tuple(value.values())
    elif not isinstance(value, (tuple, list)):
        value = (value,)
    for index, one in enumerate(value[: control.MAX_OUTPUTS]):
        kind = type(one)
        if kind is torch.Tensor:
            if one.device.type != place or one.layout is not torch.strided or one.is_neg():
                page.write_other(index, control.KIND_OTHER)
                continue
            page.write_tensor(
                index,
                _CODES.get(one.dtype, len(control.DTYPES)),
                tuple(one.shape),
                one.stride(),
                one.data_ptr(),
            )
        elif kind is bool or kind is int:
            page.write_other(index, control.KIND_INT, one)
        elif kind is float:
            page.write_other(index, control.KIND_FLOAT, control.scalar_bits(one))
        elif kind.__module__ == "numpy" and hasattr(one, "__array_interface__"):
            _report_array(page, index, one)
        else:
            page.write_other(index, control.KIND_OTHER)
    return len(value)


def _report_array(page: control.ControlPage, index: int, array: Any) -> None:
    size = array.itemsize
    name = str(array.dtype)
    code = control.DTYPES.index(name) if name in control.DTYPES else len(control.DTYPES)
    strides = tuple(stride // size for stride in array.strides)
    page.write_tensor(index, code, array.shape, strides, array.ctypes.data)


def _map_set(fd: int, described: dict[str, Any]) -> dict[str, Any]:
    shared = torch.frombuffer(mmap.mmap(fd, os.fstat(fd).st_size), dtype=torch.uint8)
    tensors = {}
    for part in ("inputs", "outputs"):
        for name, slot in described[part].items():
            dtype = getattr(torch, slot["dtype"])
            count = 1
            for size, stride in zip(slot["shape"], slot["strides"], strict=True):
                count = 0 if size == 0 or count == 0 else count + (size - 1) * stride
            raw = shared[slot["offset"] : slot["offset"] + count * dtype.itemsize]
            tensors[name] = raw.view(dtype).as_strided(slot["shape"], slot["strides"])
    return tensors


class _Call:
    """The arguments of one workload's calls: objects that stay the same over rewritten contents."""

    def __init__(
        self, setup: dict[str, Any], described: dict[str, Any], mapped: dict[str, Any]
    ) -> None:
        self._wrap = wrapper_of(setup["binding"], setup["destination_passing"])
        self._order = described["order"]
        self._mapped = {n: mapped[n] for n in self._order if n in described["inputs"]}
        self._outputs = [mapped[n] for n in described["outputs"]]
        self._passing: bool = setup["destination_passing"]
        self._scalars: list[tuple[int, int]] = []
        self._tensors: list[torch.Tensor] = []
        self.args: list[Any] = []
        self.told: Callable[[list[Any]], None] = lambda args: None
        """Told of new arguments."""
        self.renew()

    def renew(self) -> None:
        """Make new objects; the old ones are dropped first, so that ids come back."""
        self.args, self._tensors, self._scalars = [], [], []
        for name in self._order:
            if name in self._mapped:
                # `.data` gives each input a version of its own, views would share one.
                self._tensors.append(self._mapped[name].data)
                self.args.append(self._wrap(self._tensors[-1]))
            else:
                self._scalars.append((len(self.args), len(self._scalars)))
                self.args.append(0)
        if self._passing:
            self.args.extend(self._wrap(one.data) for one in self._outputs)
        self.told(self.args)

    def refresh(self, page: control.ControlPage, rewritten: int) -> None:
        """Take over the call's scalars, and let `_version` tell which tensors were rewritten."""
        for position, index in self._scalars:
            self.args[position] = page.scalar(index)
        marked = [
            one
            for index, one in enumerate(self._tensors)
            if index >= control.MAX_MARKED or rewritten >> index & 1
        ]
        torch.autograd.graph.increment_version(marked)


def wrapper_of(binding: str, destination_passing: bool) -> Callable[[torch.Tensor], Any]:
    """Return what makes an argument of a tensor for solutions with this binding."""
    if binding == "numpy":
        return lambda tensor: tensor.numpy()
    if binding == "dlpack":
        from kernelarc_guard.dltensor import as_dltensor

        return as_dltensor
    if binding == "tvm-ffi" and destination_passing:
        import tvm_ffi

        return lambda tensor: tvm_ffi.from_dlpack(tensor)
    # A value-returning native function allocates with the framework of its arguments: torch's own.
    return lambda tensor: tensor


def load_solution(setup: dict[str, Any]) -> Callable[..., Any]:
    """Load a solution and return its entry; whatever its own code raises passes through."""
    binding, entry, name = setup["binding"], Path(setup["entry"]), setup["function"]
    if binding == "dlpack":
        from kernelarc_guard.dltensor import load_function

        return load_function(entry, name)
    if binding == "tvm-ffi":
        import tvm_ffi

        native = tvm_ffi.load_module(str(entry)).get_function(name)
        return native if setup["destination_passing"] else _to_torch(native)
    if binding == "torch":
        from kernelarc_guard.toolchain import EXTENSION

        # The name is part of the library: its first function is called after it.
        spec = importlib.util.spec_from_file_location(EXTENSION, entry)
        return _function(spec, entry, name)
    sys.path.insert(0, setup["root"])
    spec = importlib.util.spec_from_file_location("kernelarc_solution", entry)
    return _function(spec, entry, name)


def _function(spec: ModuleSpec | None, entry: Path, name: str) -> Callable[..., Any]:
    if spec is None or spec.loader is None:
        raise ImportError(f"{entry.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise AttributeError(f"{entry.name} defines no function {name!r}")
    return function  # type: ignore[no-any-return]


def _slowed(function: Callable[..., Any], percent: float) -> Callable[..., Any]:
    """Plant a delay: make each call take `percent` longer (100 * ln of the ratio), busily."""
    factor = math.exp(percent / 100)

    def call(*args: Any) -> Any:
        begin = time.perf_counter_ns()
        value = function(*args)
        end = begin + (time.perf_counter_ns() - begin) * factor
        while time.perf_counter_ns() < end:
            pass
        return value

    return call


def _to_torch(native: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        value = native(*args)
        if hasattr(value, "__dlpack__"):
            return torch.utils.dlpack.from_dlpack(value)
        return tuple(torch.utils.dlpack.from_dlpack(one) for one in value)

    return call


def _move_to(scratch: str) -> None:
    os.chdir(scratch)
    os.environ.update(HOME=scratch, TMPDIR=scratch)
    tempfile.tempdir = None  # an import may have looked for it before
    for variable, folder in CACHES.items():
        os.environ[variable] = f"{scratch}/{folder}"


def _own_descriptors(log_fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(null)
    os.close(log_fd)


def _describe_error(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "kernelarc_guard" not in f.filename and "<frozen" not in f.filename]
    where = f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    return f"{type(error).__name__}: {error}{where}"[:_ERROR_CHARACTERS]
