"""The rules of the Python policy: what no honest kernel needs, and what is only worth noting.

Each rule is one function with the name of its code; it yields line and message of every hit. None
of them is a boundary: they save an agent's time, the isolation keeps it honest.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from kernelarc_guard.policy_evidence import SETTERS, is_setting, native, nvidia_smi, written
from kernelarc_guard.pynames import Names, constant_text

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
        "signal.signal",
        "signal.setitimer",
        "signal.alarm",
        "signal.sigwait",
        "signal.sigtimedwait",
        "signal.SIGSTOP",
        "signal.SIGTSTP",
        "signal.SIGCONT",
        "signal.set_wakeup_fd",
    ]
)
_KILLS: Final = frozenset({"os.kill", "os.killpg", "signal.pidfd_send_signal"})
_NATIVE_MEMORY: Final = frozenset(
    {"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"}
)
_NATIVE_TIMERS: Final = frozenset(
    {"setitimer", "timer_create", "timer_settime", "timerfd_create", "alarm", "ualarm"}
)
_SPAWNING: Final = (
    "subprocess.",
    "multiprocessing.",
    "os.exec",
    "os.spawn",
    "os.posix_spawn",
    "os.fork",
    "os.system",
    "os.popen",
)
_CLOCK_FLAGS: Final = re.compile(
    r"(?:^|\s)(-lgc|-rgc|-lmc|-rmc|-ac|-rac|-pl|-pm|-r|--lock-\w+-clocks|--reset-\w+-clocks"
    r"|--applications-clocks|--reset-applications-clocks|--power-limit|--persistence-mode"
    r"|--gpu-reset)(?:[=,\s]|$)"
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


def patch_module(names: Names) -> Iterator[Hit]:
    """Refuse replacing what torch, time and other shared modules provide."""
    for line, name in written(names):
        if not is_setting(name):
            yield line, f"replaces {name}; wrap it in a function of your own instead"


def swap_code(names: Names) -> Iterator[Hit]:
    """Refuse exchanging the code of a function."""
    says = "exchanges __code__; define another function instead"
    for node in names.nodes:
        if not isinstance(node, ast.Attribute) or node.attr != "__code__":
            continue
        if not isinstance(node.ctx, ast.Load):
            yield node.lineno, says
    for call, name in names.calls():
        attribute = constant_text(call.args[1]) if len(call.args) == 3 else None
        if name in SETTERS and attribute == "__code__":
            yield call.lineno, says


def frame_walking(names: Names) -> Iterator[Hit]:
    """Refuse looking at callers and at objects of others."""
    for line, name in names.mentions():
        if name in _FRAMES:
            yield line, f"uses {name}; a kernel gets all it needs as arguments"
    for line, name in names.attributes():
        if name in {"f_back", "tb_frame", "gi_frame", "cr_frame"}:
            yield line, f"follows {name}; a kernel gets all it needs as arguments"


def exit_process(names: Names) -> Iterator[Hit]:
    """Refuse ending the process behind Python's back."""
    for line, name in names.mentions():
        if name == "os._exit":
            yield line, "uses os._exit; raise an exception instead"


def wake_timer(names: Names) -> Iterator[Hit]:
    """Refuse handlers, timers and stop signals: the guard stops and wakes the process itself."""
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
        if _CLOCK_FLAGS.search(arguments):
            yield line, f"runs {arguments!r}; the device's clocks are not a kernel's to set"


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
        if not _CLOCK_FLAGS.search(arguments):
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


FORBIDDEN: Final[tuple[Rule, ...]] = (
    network,
    process_memory,
    kill_process,
    patch_module,
    swap_code,
    frame_walking,
    exit_process,
    wake_timer,
    prctl,
    device_clocks,
)
DOUBTFUL: Final[tuple[Rule, ...]] = (
    global_setting,
    thread_setting,
    query_device_tool,
    raw_interpreter,
    starts_processes,
)
