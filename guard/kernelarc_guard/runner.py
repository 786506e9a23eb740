"""The body of a runner: untrusted from the moment it loads a solution (imports torch, inherited).

It maps what the guard gives it, loads the solution, and then stops itself after every call. A stop
is "done", the seal and the wait in one: nothing in this process runs until the guard wakes it.
"""

import importlib.util
import mmap
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.utils.dlpack

from kernelarc_guard import control
from kernelarc_guard.frames import recv_frame, send_frame
from kernelarc_guard.limits import die_with_parent, limit_runner, set_dumpable

_CODES = {getattr(torch, name): code for code, name in enumerate(control.DTYPES)}
_FILE_BYTES = 512 << 20


def run(channel: socket.socket) -> None:
    """Serve one guard over `channel` until told to quit; never returns."""
    setup, fds = recv_frame(channel)
    die_with_parent()  # not before: until the guard speaks, the parent is a process about to end
    control_fd, log_fd, *set_fds = fds
    _own_descriptors(log_fd)
    page = control.ControlPage(mmap.mmap(control_fd, control.SIZE))
    sets = [_map_set(fd, described) for fd, described in zip(set_fds, setup["sets"], strict=True)]
    for fd in (control_fd, *set_fds):
        os.close(fd)
    if setup["threads"] > 1:
        torch.set_num_threads(setup["threads"])
    os.chdir(setup["scratch"])
    os.environ.update(HOME=setup["scratch"], TMPDIR=setup["scratch"])
    limit_runner(setup["memory_bytes"], _FILE_BYTES)
    set_dumpable(True)  # the guard reads returned tensors from the stopped process
    try:
        function = _load(setup)
    except BaseException as error:  # noqa: BLE001 - whatever a solution raises is its own failure
        send_frame(channel, {"error": _describe_error(error)})
        os._exit(1)
    send_frame(channel, {"loaded": True})
    _serve(
        page,
        function,
        [_arguments(setup, one, mapped) for one, mapped in zip(setup["sets"], sets, strict=True)],
        setup,
    )


def _serve(
    page: control.ControlPage,
    function: Callable[..., Any],
    arguments: list[tuple[list[Any], list[tuple[int, int]]]],
    setup: dict[str, Any],
) -> None:
    me = os.getpid()
    returns: bool = not setup["destination_passing"]
    kept: Any = None
    while True:
        os.kill(me, signal.SIGSTOP)
        call, command, workload = page.read_order()
        if command == control.QUIT:
            os._exit(0)
        args, scalars = arguments[workload]
        for position, index in scalars:
            args[position] = page.scalar(index)
        try:
            kept = function(*args)
            count = _report_outputs(page, kept) if returns else 0
            page.report(call, control.DONE, count)
        except BaseException as error:  # noqa: BLE001 - whatever a solution raises is its own failure
            page.write_error(_describe_error(error))
            page.report(call, control.RAISED, 0)


def _report_outputs(page: control.ControlPage, value: Any) -> int:
    if isinstance(value, dict):
        value = tuple(value.values())
    elif not isinstance(value, (tuple, list)):
        value = (value,)
    for index, one in enumerate(value[: control.MAX_OUTPUTS]):
        kind = type(one)
        if kind is torch.Tensor:
            if one.device.type != "cpu" or one.layout is not torch.strided or one.is_neg():
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


def _arguments(
    setup: dict[str, Any], described: dict[str, Any], mapped: dict[str, Any]
) -> tuple[list[Any], list[tuple[int, int]]]:
    """Return the call's argument list and which positions take which scalar of the page."""
    wrap = _wrapper(setup["binding"], setup["destination_passing"])
    args: list[Any] = []
    scalars: list[tuple[int, int]] = []
    for name in described["order"]:
        if name in described["inputs"]:
            args.append(wrap(mapped[name]))
        else:
            scalars.append((len(args), len(scalars)))
            args.append(0)
    if setup["destination_passing"]:
        args.extend(wrap(mapped[name]) for name in described["outputs"])
    return args, scalars


def _wrapper(binding: str, destination_passing: bool) -> Callable[[torch.Tensor], Any]:
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


def _load(setup: dict[str, Any]) -> Callable[..., Any]:
    binding, entry, name = setup["binding"], Path(setup["entry"]), setup["function"]
    if binding == "dlpack":
        from kernelarc_guard.dltensor import load_function

        return load_function(entry, name)
    if binding == "tvm-ffi":
        import tvm_ffi

        native = tvm_ffi.load_module(str(entry)).get_function(name)
        return native if setup["destination_passing"] else _to_torch(native)
    sys.path.insert(0, setup["root"])
    spec = importlib.util.spec_from_file_location("kernelarc_solution", entry)
    if spec is None or spec.loader is None:
        raise ImportError(f"{entry.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernelarc_solution"] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise AttributeError(f"{entry.name} defines no function {name!r}")
    return function  # type: ignore[no-any-return]


def _to_torch(native: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        value = native(*args)
        if hasattr(value, "__dlpack__"):
            return torch.utils.dlpack.from_dlpack(value)
        return tuple(torch.utils.dlpack.from_dlpack(one) for one in value)

    return call


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
    return f"{type(error).__name__}: {error}{where}"
