"""The rules of the Python policy: what no honest kernel needs.

Each rule is one function with the name of its code; it yields line and message of every hit. None
of them is a boundary: they save an agent's time, the isolation keeps it honest.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from kernelarc_guard.policy_evidence import CLOCK_FLAGS, native, nvidia_smi, written
from kernelarc_guard.pynames import Names

Hit = tuple[int, str]
Rule = Callable[[Names], Iterator[Hit]]

_NETWORK: Final = frozenset(
    [
        "socket",
        "socketserver",
        "ssl",
        "urllib",
        "urllib3",
        "http",
        "requests",
        "httpx",
        "aiohttp",
        "ftplib",
        "smtplib",
        "poplib",
        "imaplib",
        "telnetlib",
        "nntplib",
        "xmlrpc",
        "paramiko",
        "websocket",
        "websockets",
        "grpc",
        "zmq",
    ]
)
_HARMLESS_NETWORK: Final = ("urllib.parse", "http.HTTPStatus")
_FRAMES: Final = frozenset(
    [
        "sys._getframe",
        "sys._current_frames",
        "sys.settrace",
        "sys.setprofile",
        "sys._getframemodulename",
        "threading.settrace",
        "threading.setprofile",
        "threading.settrace_all_threads",
        "threading.setprofile_all_threads",
        "inspect.currentframe",
        "inspect.stack",
        "inspect.trace",
        "inspect.getouterframes",
        "inspect.getinnerframes",
        "traceback.walk_stack",
        "gc.get_objects",
        "gc.get_referrers",
    ]
)
_TIMERS: Final = frozenset(
    [
        "signal.setitimer",
        "signal.alarm",
        "signal.SIGSTOP",
        "signal.SIGTSTP",
        "signal.SIGCONT",
    ]
)
_KILLS: Final = frozenset({"os.kill", "os.killpg", "signal.pidfd_send_signal"})
_NATIVE_MEMORY: Final = frozenset(
    {"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"}
)
_NATIVE_TIMERS: Final = frozenset(
    {"setitimer", "timer_create", "timer_settime", "timerfd_create", "alarm", "ualarm"}
)


def network(names: Names) -> Iterator[Hit]:
    """Refuse modules that talk to other machines."""
    for line, name in names.mentions():
        root = name.partition(".")[0]
        # A bare package does nothing yet; what is used of it is a mention of its own.
        harmless = name in {"urllib", "http"} or name.startswith(_HARMLESS_NETWORK)
        if root in _NETWORK and not harmless:
            yield line, f"uses {name}; a kernel needs no network"


def process_memory(names: Names) -> Iterator[Hit]:
    """Refuse reading or writing a process's memory from outside it."""
    for line, name in native(names, _NATIVE_MEMORY):
        yield line, f"calls {name}; a kernel works on its own tensors only"
    for line, text in names.strings():
        if re.fullmatch(r"/proc/[^/\s]+/mem", text):
            yield line, f"opens {text}; a kernel works on its own tensors only"


def kill_process(names: Names) -> Iterator[Hit]:
    """Refuse signals to other processes."""
    for call, name in names.calls():
        target = call.args[0] if call.args else None
        to_itself = isinstance(target, ast.Call) and names.dotted(target.func) == "os.getpid"
        if name in _KILLS and not to_itself:
            yield call.lineno, f"{name} signals another process; end your children by their handle"


def patch_evaluator(names: Names) -> Iterator[Hit]:
    """Refuse replacing what the program that runs the kernel is made of."""
    for line, name in written(names):
        if name.partition(".")[0] == "__main__":
            yield line, f"replaces {name}; what runs the kernel is not its own"


def frame_walking(names: Names) -> Iterator[Hit]:
    """Refuse looking at callers and at objects of others."""
    for line, name in names.mentions():
        if name in _FRAMES:
            yield line, f"uses {name}; a kernel gets all it needs as arguments"
    for line, name in names.attributes():
        if name in {"f_back", "tb_frame", "gi_frame", "cr_frame"}:
            yield line, f"follows {name}; a kernel gets all it needs as arguments"


def exit_process(names: Names) -> Iterator[Hit]:
    """Refuse ending the process behind Python's back; a forked child has to end that way."""
    mentions = list(names.mentions())
    if any(name in {"os.fork", "os.forkpty"} for _, name in mentions):
        return
    for line, name in mentions:
        if name == "os._exit":
            yield line, "uses os._exit; raise an exception instead"


def wake_timer(names: Names) -> Iterator[Hit]:
    """Refuse timers and stop signals: the guard stops and wakes the process itself."""
    for line, name in names.mentions():
        if name in _TIMERS:
            yield line, f"uses {name}; a kernel needs no signals"
    for line, name in native(names, _NATIVE_TIMERS):
        yield line, f"calls {name}; a kernel needs no timers"


def prctl(names: Names) -> Iterator[Hit]:
    """Refuse changing what the kernel of the system does with the process."""
    for line, name in names.imports:
        if name.partition(".")[0] == "prctl":
            yield line, "imports prctl; the process is the guard's to set up"
    for line, _ in native(names, frozenset({"prctl"})):
        yield line, "calls prctl; the process is the guard's to set up"


def device_clocks(names: Names) -> Iterator[Hit]:
    """Refuse setting a GPU's clocks, power or modes."""
    for line, name in names.attributes():
        if name.startswith(("nvmlDeviceSet", "nvmlDeviceReset")):
            yield line, f"calls {name}; the device's clocks are not a kernel's to set"
    for line, name in names.imports:
        if name.rpartition(".")[2].startswith(("nvmlDeviceSet", "nvmlDeviceReset")):
            yield line, f"imports {name}; the device's clocks are not a kernel's to set"
    for line, arguments in nvidia_smi(names):
        if CLOCK_FLAGS.search(arguments):
            yield line, f"runs {arguments!r}; the device's clocks are not a kernel's to set"


FORBIDDEN: Final[tuple[Rule, ...]] = (
    network,
    process_memory,
    kill_process,
    patch_evaluator,
    frame_walking,
    exit_process,
    wake_timer,
    prctl,
    device_clocks,
)
