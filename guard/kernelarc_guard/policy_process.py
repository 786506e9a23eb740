"""Rules for what changes the process a solution runs in: noted, since nothing that decides is in it."""

import ast
from collections.abc import Iterator
from typing import Final

from kernelarc_guard.policy_evidence import (
    CLOCK_FLAGS,
    SETTERS,
    is_setting,
    native,
    nvidia_smi,
    written,
)
from kernelarc_guard.policy_rules import Hit, Rule
from kernelarc_guard.pynames import Names, constant_text

_HANDLERS: Final = frozenset(
    ["signal.signal", "signal.sigwait", "signal.sigtimedwait", "signal.set_wakeup_fd"]
)


def patch_module(names: Names) -> Iterator[Hit]:
    """Note replaced functions of torch, time and other shared modules."""
    for line, name in written(names):
        if not is_setting(name) and name.partition(".")[0] != "__main__":
            yield line, f"replaces {name}"


def swap_code(names: Names) -> Iterator[Hit]:
    """Note an exchanged code of a function."""
    for node in names.nodes:
        if isinstance(node, ast.Attribute) and node.attr == "__code__":
            if not isinstance(node.ctx, ast.Load):
                yield node.lineno, "exchanges __code__"
    for call, name in names.calls():
        attribute = constant_text(call.args[1]) if len(call.args) == 3 else None
        if name in SETTERS and attribute == "__code__":
            yield call.lineno, "exchanges __code__"


def signal_handler(names: Names) -> Iterator[Hit]:
    """Note what waits for signals."""
    for line, name in names.mentions():
        if name in _HANDLERS:
            yield line, f"uses {name}"


def global_setting(names: Names) -> Iterator[Hit]:
    """Note settings changed for the whole process."""
    for line, name in written(names):
        if is_setting(name):
            yield line, f"sets {name}"


def thread_setting(names: Names) -> Iterator[Hit]:
    """Note changes of the number or the place of threads."""
    for call, name in names.calls():
        if name in {
            "torch.set_num_threads",
            "torch.set_num_interop_threads",
            "os.sched_setaffinity",
        }:
            yield call.lineno, f"calls {name}"


def query_device_tool(names: Names) -> Iterator[Hit]:
    """Note questions to nvidia-smi."""
    for line, arguments in nvidia_smi(names):
        if not CLOCK_FLAGS.search(arguments):
            yield line, f"mentions {arguments!r}"


def raw_interpreter(names: Names) -> Iterator[Hit]:
    """Note ways into the interpreter and the system that leave no name to check."""
    for line, name in names.mentions():
        if name == "ctypes.pythonapi":
            yield line, "uses ctypes.pythonapi"
    for line, _ in native(names, frozenset({"syscall"})):
        yield line, "makes system calls by number"
    for line, name in names.attributes():
        if name in {"f_locals", "f_globals", "__globals__", "__closure__"}:
            yield line, f"looks at {name}"


def starts_processes(names: Names) -> Iterator[Hit]:
    """Note other processes, which have to be gone before the first window."""
    for call, name in names.calls():
        if name.startswith(("subprocess.", "multiprocessing.", "os.exec", "os.spawn")) or name in {
            "os.fork",
            "os.forkpty",
            "os.system",
            "os.popen",
            "os.posix_spawn",
        }:
            yield call.lineno, f"calls {name}"


DOUBTFUL: Final[tuple[Rule, ...]] = (
    patch_module,
    swap_code,
    signal_handler,
    global_setting,
    thread_setting,
    query_device_tool,
    raw_interpreter,
    starts_processes,
)
