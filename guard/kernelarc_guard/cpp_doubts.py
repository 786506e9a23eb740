"""Rules for C++ and CUDA that only note: legal, often honest, sometimes the trace of a trick; light."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from kernelarc_guard.cppnames import CppNames

Hit = tuple[int, str]

_SPAWNING: Final = (
    "fork",
    "vfork",
    "clone",
    "clone3",
    "execl",
    "execlp",
    "execle",
    "execv",
    "execve",
    "execvp",
    "execvpe",
    "fexecve",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "std::system",
    "popen",
    "daemon",
    "setsid",
)
_HANDLERS: Final = (
    "signal",
    "std::signal",
    "sigaction",
    "sigprocmask",
    "pthread_sigmask",
    "sigwait",
    "sigwaitinfo",
    "sigtimedwait",
    "signalfd",
)
_THREADS: Final = (
    "omp_set_num_threads",
    "sched_setaffinity",
    "pthread_setaffinity_np",
    "pthread_attr_setaffinity_np",
    "setpriority",
    "nice",
    "sched_setscheduler",
    "at::set_num_threads",
    "torch::set_num_threads",
)
_SLEEPING: Final = (
    "sleep",
    "usleep",
    "nanosleep",
    "clock_nanosleep",
    "std::this_thread::sleep_for",
    "std::this_thread::sleep_until",
    "__nanosleep",
)
_CLOCKS: Final = (
    "clock",
    "std::clock",
    "clock64",
    "clock_gettime",
    "gettimeofday",
    "omp_get_wtime",
    "std::chrono::steady_clock::now",
    "std::chrono::system_clock::now",
    "std::chrono::high_resolution_clock::now",
    "cudaEventElapsedTime",
    "__rdtsc",
)
_EXITS: Final = ("_exit", "_Exit", "std::_Exit", "quick_exit", "std::quick_exit", "atexit")
_MEASURED: Final = re.compile(
    r"clock_gettime|gettimeofday|clock|time|malloc|free|memcpy|memcmp|memset|write|read|kill|raise"
    r"|waitpid|cu(?:da)?(?:Event|Stream|Ctx|Device|Launch|Memcpy|Memset)\w*|nvml\w+|Py[A-Z_]\w*"
)
"""Functions that others call to measure, to copy and to talk."""


def _calls(names: CppNames, wanted: tuple[str, ...], verb: str = "calls") -> Iterator[Hit]:
    for call in names.named(*wanted):
        if call.name not in names.own:
            yield call.line, f"{verb} {call.name}"


def page_protection(names: CppNames) -> Iterator[Hit]:
    """Note changed protection of memory pages."""
    yield from _calls(names, ("mprotect", "pkey_mprotect"))
    for call in names.named("mmap", "mmap64"):
        if any("PROT_EXEC" in argument for argument in call.arguments):
            yield call.line, "maps executable pages"


def starts_processes(names: CppNames) -> Iterator[Hit]:
    """Note other processes, which have to be gone before the first window."""
    yield from _calls(names, _SPAWNING)


def signal_handler(names: CppNames) -> Iterator[Hit]:
    """Note what waits for signals."""
    yield from _calls(names, _HANDLERS)


def thread_setting(names: CppNames) -> Iterator[Hit]:
    """Note changes of the number or the place of threads."""
    yield from _calls(names, _THREADS)


def sleeping(names: CppNames) -> Iterator[Hit]:
    """Note waiting, which makes nothing faster."""
    yield from _calls(names, _SLEEPING)


def own_clock(names: CppNames) -> Iterator[Hit]:
    """Note that it measures itself."""
    yield from _calls(names, _CLOCKS, "reads")


def exit_handler(names: CppNames) -> Iterator[Hit]:
    """Note ends of the process that run no destructors, and code that runs at its end."""
    yield from _calls(names, _EXITS)


def interposes(names: CppNames) -> Iterator[Hit]:
    """Note functions with the names of the system's own: nothing the guard relies on calls them."""
    for line, name in names.exported:
        if _MEASURED.fullmatch(name):
            yield line, f"defines {name}, which is the system's"


def runs_at_load(names: CppNames) -> Iterator[Hit]:
    """Note functions that run when the library is loaded."""
    for line in names.at_load:
        yield line, "runs when it is loaded"


def pasted_names(names: CppNames) -> Iterator[Hit]:
    """Note macros that put names together."""
    for line, body in names.macros:
        if "##" in body:
            yield line, "puts names together in a macro"


def network_header(names: CppNames) -> Iterator[Hit]:
    """Note headers for networks and for tracing."""
    for line, path in names.includes:
        if path in {"sys/socket.h", "netdb.h", "netinet/in.h", "curl/curl.h", "sys/ptrace.h"}:
            yield line, f"includes {path}"


def raw_bytes(names: CppNames) -> Iterator[Hit]:
    """Note assembly that is written as bytes."""
    for line, text, _ in names.assembly:
        if re.search(r"\.(?:byte|long|quad|word|inst)\b", text):
            yield line, "has assembly written as bytes"


def persisting_cache(names: CppNames) -> Iterator[Hit]:
    """Note data that are to stay in a GPU's cache from one call to the next."""
    for name in ("cudaLimitPersistingL2CacheSize", "cudaAccessPropertyPersisting"):
        if name in names.used:
            yield names.used[name][0], f"uses {name}"


CPP_DOUBTS: Final[tuple[Callable[[CppNames], Iterator[Hit]], ...]] = (
    page_protection,
    starts_processes,
    signal_handler,
    thread_setting,
    sleeping,
    own_clock,
    exit_handler,
    interposes,
    runs_at_load,
    pasted_names,
    network_header,
    raw_bytes,
    persisting_cache,
)
