"""The rules of the policy for C++ and CUDA: what no honest kernel needs; light.

Each rule yields line, message and whether it is certain. Only a certain hit refuses: a call of the
system's function in text that parsed, where the source declares nothing of that name. The others
are noted.
"""

import platform
import re
from collections.abc import Callable, Iterator
from typing import Final

from kernelarc_guard.cppnames import Call, CppNames
from kernelarc_guard.policy_evidence import CLOCK_FLAGS

Seen = tuple[int, str, bool]
CppRule = Callable[[CppNames], Iterator[Seen]]

_NETWORK: Final = ("socket", "getaddrinfo", "gethostbyname", "gethostbyname_r", "curl_easy_init")
_MEMORY: Final = ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd")
_KILLS: Final = ("kill", "killpg", "tkill", "tgkill", "sigqueue", "pidfd_send_signal")
_TIMERS: Final = (
    "setitimer",
    "timer_create",
    "timer_settime",
    "timerfd_create",
    "timerfd_settime",
    "alarm",
    "ualarm",
)
_STOPS: Final = ("SIGSTOP", "SIGTSTP", "SIGCONT")
_STOP_NUMBERS: Final = frozenset({18, 19, 20})
_SIGNAL_AT: Final = {
    "raise": 0,
    "std::raise": 0,
    "signal": 0,
    "std::signal": 0,
    "sigaction": 0,
    "kill": 1,
    "killpg": 1,
    "tkill": 1,
    "tgkill": 2,
    "sigqueue": 1,
    "pidfd_send_signal": 1,
    "pthread_kill": 1,
    "sigaddset": 1,
}
"""Functions that take a signal, and at which place."""
_OPENING: Final = (
    "open",
    "open64",
    "openat",
    "fopen",
    "fopen64",
    "std::fopen",
    "freopen",
    "std::freopen",
    "ifstream",
    "ofstream",
    "fstream",
    "std::ifstream",
    "std::ofstream",
    "std::fstream",
    "sprintf",
    "snprintf",
    "asprintf",
    "std::sprintf",
    "std::snprintf",
    "std::format",
    "fmt::format",
)
"""Functions that open a file, or put together the name of one."""
_PROCESS_FILE: Final = re.compile(
    r"/proc/(?P<who>\d+|self|thread-self|%\w+|\{\w*\}|\*)(?:/task/[^/\s]+)?/(?P<what>\S+)"
)
_PRCTL: Final = {
    "PR_SET_PDEATHSIG": 1,
    "PR_SET_DUMPABLE": 4,
    "PR_SET_TIMING": 14,
    "PR_SET_SECCOMP": 22,
    "PR_SET_TSC": 26,
    "PR_SET_MM": 35,
    "PR_SET_CHILD_SUBREAPER": 36,
    "PR_SET_PTRACER": 0x59616D61,
}
_SYSCALLS: Final = {
    "timerfd_create": 283,
    "timerfd_settime": 286,
    "pidfd_send_signal": 424,
    "pidfd_getfd": 438,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "setitimer": 38,
    "alarm": 37,
    "socket": 41,
    "kill": 62,
    "ptrace": 101,
    "tkill": 200,
    "timer_create": 222,
    "timer_settime": 223,
    "tgkill": 234,
}
"""Forbidden system calls and their numbers on x86-64; other machines number them otherwise."""
_ENTERS: Final = re.compile(
    r"(?:^|[;\n])\s*(?:[\w.$]+:\s*)*(syscall|sysenter|int\s+\$?0x80|svc)\b", re.IGNORECASE
)
_ITSELF: Final = re.compile(r"(?:::)?getpid\s*\(\s*\)|syscall\s*\(\s*(?:SYS|__NR)_getpid\s*\)")
_LOOKUPS: Final = ("dlsym", "dlvsym", "GetProcAddress")


def _called(names: CppNames, wanted: tuple[str, ...]) -> Iterator[tuple[Call, bool]]:
    """Yield calls of system functions, and whether it is certain that they are these."""
    for call in names.named(*wanted):
        yield call, not call.broken and call.name not in names.own


def _found(names: CppNames, wanted: tuple[str, ...], why: str) -> Iterator[Seen]:
    """Yield calls of system functions, look-ups of their names, and uses without a call."""
    for call, certain in _called(names, wanted):
        yield call.line, f"calls {call.name}; {why}", certain
    for call, certain in _called(names, _LOOKUPS):
        for text in call.texts:
            if text in wanted:
                yield call.line, f"looks up {text}; {why}", certain
    called = {call.name for call in names.calls}
    for name in wanted:
        if name in names.used and name not in called and name not in names.own:
            yield names.used[name][0], f"names {name}; {why}", False
    for line, body in names.macros:
        for word in re.findall(r"\w+", body):
            if word in wanted:
                yield line, f"has {word} in a macro; {why}", False


def network(names: CppNames) -> Iterator[Seen]:
    """Refuse talking to other machines."""
    yield from _found(names, _NETWORK, "a kernel needs no network")


def process_memory(names: CppNames) -> Iterator[Seen]:
    """Refuse reading or writing a process's memory from outside it, and other processes' files."""
    why = "a kernel works on its own tensors only"
    yield from _found(names, _MEMORY, why)
    opened: set[str] = set()
    for call in names.calls:
        if call.method and call.name == "open" or call.name in _OPENING:
            for text in call.texts:
                match = _PROCESS_FILE.fullmatch(text)
                if match is not None and (match["what"] == "mem" or match["who"].isdigit()):
                    opened.add(text)
                    certain = not call.broken and (call.method or call.name not in names.own)
                    yield call.line, f"opens {text}; {why}", certain
    for line, text in names.strings:
        match = _PROCESS_FILE.fullmatch(text)
        if match is not None and text not in opened:
            if match["what"] == "mem" or "self" not in match["who"]:
                yield line, f"names {text}; {why}", False


def kill_process(names: CppNames) -> Iterator[Seen]:
    """Refuse signals to other processes."""
    sent: dict[bool, set[int]] = {True: set(), False: set()}
    for call in names.named(*_KILLS):
        to_itself = bool(call.arguments) and _ITSELF.fullmatch(call.arguments[0]) is not None
        sent[to_itself].add(call.line)
    harmless = sent[True] - sent[False]
    for line, message, certain in _found(names, _KILLS, "end your children by their handle"):
        yield line, message, certain and line not in harmless


def wake_timer(names: CppNames) -> Iterator[Seen]:
    """Refuse timers and stop signals: the guard stops and wakes the process itself."""
    yield from _found(names, _TIMERS, "a kernel needs no timers")
    for call, certain in _called(names, tuple(_SIGNAL_AT)):
        at = _SIGNAL_AT[call.name]
        if len(call.arguments) > at and _number(call.arguments[at]) in _STOP_NUMBERS:
            signal = call.arguments[at]
            yield call.line, f"uses signal {signal}; a kernel needs no signals", certain
    for signal in _STOPS:
        if signal in names.used and signal not in names.own:
            line, broken = names.used[signal]
            yield line, f"uses {signal}; a kernel needs no signals", not broken


def prctl(names: CppNames) -> Iterator[Seen]:
    """Refuse changing what the kernel of the system does with the process."""
    for call, certain in _called(names, ("prctl",)):
        option = call.arguments[0] if call.arguments else ""
        forbidden = option in _PRCTL or _number(option) in _PRCTL.values()
        yield (
            call.line,
            f"calls prctl({option}); the process is the guard's to set up",
            certain and forbidden,
        )


def device_clocks(names: CppNames) -> Iterator[Seen]:
    """Refuse setting a GPU's clocks, power or modes."""
    why = "the device's clocks are not a kernel's to set"
    for call in names.calls:
        certain = not call.broken and not call.method and call.name not in names.own
        for name in (call.name, *(call.texts if call.name in _LOOKUPS else ())):
            if re.fullmatch(r"nvmlDevice(?:Set|Reset)\w*", name):
                yield call.line, f"calls {name}; {why}", certain
        if call.name.removeprefix("std::") in {"system", "popen", "execl", "execlp"}:
            said = " ".join(call.texts)
            if "nvidia-smi" in said and CLOCK_FLAGS.search(said):
                yield call.line, f"runs {said!r}; {why}", certain


def raw_syscall(names: CppNames) -> Iterator[Seen]:
    """Refuse entering the system past its library for what the library's functions are refused."""
    for call, certain in _called(names, ("syscall",)):
        first = call.arguments[0] if call.arguments else ""
        name = re.sub(r"^(?:SYS|__NR)_", "", first)
        number = _number(first) if platform.machine() == "x86_64" else None
        known = next((n for n, value in _SYSCALLS.items() if value == number), name)
        to_itself = len(call.arguments) > 1 and _ITSELF.fullmatch(call.arguments[1]) is not None
        forbidden = known in _SYSCALLS and not (known in _KILLS and to_itself)
        said = f"{first} ({known})" if known != name else first
        yield call.line, f"makes the system call {said}", certain and forbidden
    for line, text, broken in names.assembly:
        if _ENTERS.search(text):
            yield line, "makes system calls in assembly", not broken


def _number(text: str) -> int | None:
    try:
        return int(text.rstrip("uUlL"), 0)
    except ValueError:
        return None


CPP_RULES: Final[tuple[CppRule, ...]] = (
    network,
    process_memory,
    kill_process,
    wake_timer,
    prctl,
    device_clocks,
    raw_syscall,
)
