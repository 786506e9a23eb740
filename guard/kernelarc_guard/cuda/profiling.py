"""Profiling one call of a solution on a GPU: the profiler's run, its table, the machine code (torch)."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch

from kernelarc_guard.allowlist import refuse_home
from kernelarc_guard.backend import Backend
from kernelarc_guard.build import Built
from kernelarc_guard.cuda import profiled
from kernelarc_guard.cuda.cupti_recorder import ABSENT, installed
from kernelarc_guard.cuda.left_behind import (
    MOST_WORDS,
    CallFailed,
    compiled_while_running,
    is_plain,
    raise_its_failure,
)
from kernelarc_guard.cuda.ncu import (
    MOST_KERNELS,
    Ncu,
    find_ncu,
    not_permitted,
    profiling_command,
    read_table,
    refusal,
    table_command,
)
from kernelarc_guard.cuda.nvcc import find_nvcc
from kernelarc_guard.cuda.sass import read_sass
from kernelarc_guard.cuda.tracing import NoTimeline, trace
from kernelarc_guard.dtypes import stored_shape, torch_dtype
from kernelarc_guard.faults import Refused
from kernelarc_guard.inputs import Value
from kernelarc_guard.problem import Problem
from kernelarc_guard.profile_model import KernelFacts, MachineCode, printable
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.solution import Solution
from kernelarc_guard.supervised import Room
from kernelarc_guard.timeline_model import Timeline

MOST_INPUT_BYTES: Final = 8 << 30
LIBRARY_ONLY: Final = "no machine code of its own: it calls a library's kernels"
NO_TIMELINE: Final = "no timeline: "
"""How a note on a call that CUPTI did not record begins."""
_NOT_DISASSEMBLED: Final = (
    "no machine code: cuobjdump, which comes with CUDA's compiler, is not here or found none"
)
_PROFILE_SECONDS: Final = 240.0
_TABLE_SECONDS: Final = 60.0
_REPORT: Final = "report.ncu-rep"
_TABLE: Final = "metrics.csv"
_TOLD: Final = "told.json"
_JOB: Final = "job.json"
_CODE: Final = "sass.txt"
_CACHE: Final = "cache"
_CODE_BYTES: Final = 64 << 20
_TABLE_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class Call:
    """What is profiled: one call of a built solution on one workload's inputs."""

    solution: Solution
    built: Built
    problem: Problem
    index: int
    inputs: dict[str, Value]


@dataclass
class Seen:
    """What a profile on a GPU gave."""

    timeline: Timeline | None = None
    kernels: list[KernelFacts] = field(default_factory=list)
    code: MachineCode | None = None
    notes: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    """Raw reports, on the host."""
    settled: bool = False
    """Where there are no counters, or it failed: nothing about this machine's profiler is in doubt."""


class GpuProfile:
    """One profile of one solution on one workload."""

    def __init__(
        self,
        room: Room,
        tools: Path,
        tell: Callable[[str], None],
        *,
        held: bool = True,
        timeline: bool = False,
    ) -> None:
        """Run the solution in `room`, and in `tools` what reads what it left there.

        `tell` is told what is being done. `held`: once the profiler has begun the solution's process is
        held as runners are, by landlock and the system call filter too. `timeline`: CUPTI records a
        call first, in a process of its own that is held like that.
        """
        self._held = held
        self._timeline = timeline
        self._room = room
        # Nothing that a solution wrote can be in the way of what is written here.
        self._tools = Room(room.sandbox, given=room.out, out=tools, shown=room.shown)
        self._tell = tell
        self.seen = Seen()

    def run(self, call: Call) -> Seen:
        """Profile one call; what cannot be had is a note. CallFailed where the solution fails."""
        ncu = find_ncu()
        recorded = self._timeline and installed()
        if ncu is not None or recorded:
            self._place(ncu, call)
        if recorded:
            self._tell("recording one call")
            self._trace()
        elif self._timeline:
            self.seen.notes.append(f"{NO_TIMELINE}{ABSENT}")
        if ncu is None:
            self.seen.settled = True
            self.seen.notes.append("no counters: ncu is not installed on this machine")
        else:
            self._tell("profiling one call")
            self._profile(ncu)
        self._tell("reading the machine code")
        self.seen.code = self._machine_code(call.built)
        return self.seen

    def _trace(self) -> None:
        """Have CUPTI record a call; what it gives decides nothing, so that none is a note alone."""
        try:
            self.seen.timeline = trace(self._room, self._room.given / _JOB)
        except NoTimeline as error:
            self.seen.notes.append(f"{NO_TIMELINE}{error}")

    def _place(self, ncu: Ncu | None, call: Call) -> None:
        """Write what the processes that are recorded and profiled are given."""
        room, solution, built = self._room, call.solution, call.built
        shutil.copytree(built.root, room.given / "src")
        entry = room.given / "src" / built.entry.name
        if built.entry.is_relative_to(built.root):
            entry = room.given / "src" / built.entry.relative_to(built.root)
        else:
            shutil.copy(built.entry, entry)
        (room.out / _CACHE).mkdir()
        job = {
            "setup": {
                "binding": solution.binding
                or ("numpy" if "numpy" in solution.spec.languages else "python"),
                "destination_passing": solution.spec.destination_passing_style,
                "entry": room.inside(entry),
                "root": room.inside(room.given / "src"),
                "function": solution.entry_function,
            },
            "confinement": self._confinement(ncu) if self._held else None,
            "given": room.inside(room.given),
            "out": room.inside(room.out),
            "arguments": _arguments(call.inputs, room),
            "outputs": _outputs(call.problem, call.index),
        }
        (room.given / _JOB).write_text(json.dumps(job), encoding="utf-8")

    def _confinement(self, ncu: Ncu | None) -> dict[str, Any]:
        """Return what holds the process once CUPTI or the profiler has begun: as a runner is held."""
        held = self._room.sandbox.confinement(counted=False, devices=tuple(self._room.devices))
        also = () if ncu is None else (ncu.root,)
        return replace(held, readable=(*held.readable, *also)).as_json()

    def _profile(self, ncu: Ncu) -> None:
        room, seen = self._room, self.seen
        report, words = room.out / _REPORT, room.out / _TOLD
        program = [sys.executable, "-I", "-B", "-m", profiled.__name__]
        program += [room.inside(room.given / _JOB), room.inside(words)]
        command = profiling_command(ncu, room.inside(report), program)
        answer = room.run(command, _PROFILE_SECONDS)
        os.chmod(room.out, 0o700)  # the solution may have shut it
        output: str = answer["output"]
        if answer["passed"]:
            seen.settled = True
            raise CallFailed(
                f"the solution passed a limit while it was profiled: {answer['passed']}"
            )
        raise_its_failure(words)
        if answer["returncode"] is None:
            seen.settled = True
            seen.notes.append(f"no counters: profiling took more than {_PROFILE_SECONDS:g} s")
            return
        if not is_plain(report):
            why = refusal(output) or f"the profiler left no report: {_tail(output)}"
            seen.settled = not_permitted(output)
            seen.notes.append(f"no counters: {why}")
            return
        seen.files.append(report)
        self._read_report(ncu, report, output)

    def _read_report(self, ncu: Ncu, report: Path, output: str) -> None:
        tools, seen = self._tools, self.seen
        table = tools.out / _TABLE
        self._shell([table_command(ncu, tools.inside(report))], table)
        if table.is_file() and table.stat().st_size > _TABLE_BYTES:
            seen.notes.append(f"no counters: the report's table has more than {_TABLE_BYTES} bytes")
            return
        try:
            text = table.read_text(encoding="utf-8", errors="replace") if table.is_file() else ""
            seen.kernels = read_table(text)
        except ValueError as error:
            seen.notes.append(f"no counters: {refusal(output) or error}")
            return
        seen.files.append(table)
        if sum(one.launches for one in seen.kernels) >= MOST_KERNELS:
            seen.notes.append(f"only the first {MOST_KERNELS} launches of the call were profiled")

    def code_of_library(self, built: Built) -> MachineCode | None:
        """Return what a compiled solution's machine code holds; None where it is not compiled."""
        if built.entry.is_relative_to(built.root):
            return None
        return self._disassembled([self._copied(built)], "record.sass.txt")

    def _machine_code(self, built: Built) -> MachineCode | None:
        """Disassemble what was built, and what the solution compiled while it ran."""
        binaries, notes = compiled_while_running(self._room.out, self._tools.out)
        self.seen.notes += notes
        if not built.entry.is_relative_to(built.root):
            binaries.append(self._copied(built))
        code = self._disassembled(binaries, _CODE) if binaries else None
        if code is None:
            self.seen.notes.append(LIBRARY_ONLY if not binaries else _NOT_DISASSEMBLED)
        return code

    def _copied(self, built: Built) -> Path:
        target = self._tools.out / f"{built.digest[:12]}.so"
        shutil.copy(built.entry, target)
        return target

    def _disassembled(self, binaries: list[Path], name: str) -> MachineCode | None:
        nvcc = find_nvcc()
        program = f"{nvcc.root}/bin/cuobjdump" if nvcc else "cuobjdump"
        code = self._tools.out / name
        # One at a time: the program takes no more.
        self._shell([[program, "--dump-sass", self._tools.inside(one)] for one in binaries], code)
        if not code.is_file() or code.stat().st_size > _CODE_BYTES:
            return None
        found = read_sass(code.read_text(encoding="utf-8", errors="replace"))
        if not found.instructions:
            return None
        self.seen.files.append(code)
        return found

    def _shell(self, commands: Sequence[Sequence[str]], target: Path) -> None:
        """Run commands whose output is too long for an answer, one after the other, into a file."""
        words = "; ".join(shlex.join(one) for one in commands)
        shell = ["/bin/sh", "-c", f"{{ {words}; }} > {shlex.quote(self._tools.inside(target))}"]
        self._tools.run(shell, _TABLE_SECONDS)


def gpu_room(sandbox: Sandbox, backend: Backend, folder: Path) -> tuple[Room, Path]:
    """Return a solution's room and a folder for tools; Refused where showing ncu shows a home."""
    ncu = find_ncu()
    if ncu is not None:
        refuse_home(ncu.root, "install the profiler elsewhere, or take it off the PATH")
    given, out, tools = (folder / name for name in ("given", "out", "tools"))
    for one in (given, out, tools):
        one.mkdir()
    place = "/out" if sandbox.bubblewrap else str(out)
    caches = {name: f"{place}/{_CACHE}" for name in ("TRITON_CACHE_DIR", "CUPY_CACHE_DIR")}
    room = Room(
        sandbox,
        given=given,
        out=out,
        shown=(ncu.root,) if ncu else (),
        devices=backend.nodes,
        environment=backend.environment | caches,
        hostile=True,
    )
    return room, tools


def _arguments(inputs: dict[str, Value], room: Room) -> list[dict[str, Any]]:
    """Write the tensors to files; return what the profiled process needs to load them."""
    tensors = [one for one in inputs.values() if isinstance(one, torch.Tensor)]
    total = sum(one.numel() * one.element_size() for one in tensors)
    if total > MOST_INPUT_BYTES:
        raise Refused(
            f"the workload's inputs are {total} bytes; at most {MOST_INPUT_BYTES} can be profiled"
        )
    told: list[dict[str, Any]] = []
    for number, value in enumerate(inputs.values()):
        if not isinstance(value, torch.Tensor):
            told.append({"value": value})
            continue
        path = room.given / f"input-{number}"
        raw = value.contiguous().reshape(-1).view(torch.uint8).cpu()
        raw.numpy().tofile(path)
        told.append(
            {
                "file": room.inside(path),
                "bytes": raw.numel(),
                "dtype": str(value.dtype).removeprefix("torch."),
                "shape": list(value.shape),
            }
        )
    return told


def _outputs(problem: Problem, index: int) -> list[dict[str, Any]]:
    definition = problem.definition
    resolved = definition.resolve(problem.workloads[index].axes)
    told = []
    for name, spec in definition.outputs.items():
        shape = definition.output_shape(name, resolved)
        if shape is not None:
            dtype = str(torch_dtype(spec.dtype)).removeprefix("torch.")
            told.append({"shape": list(stored_shape(spec, shape)), "dtype": dtype})
    return told


def _tail(output: str) -> str:
    return printable(output[-MOST_WORDS:], MOST_WORDS) or "it printed nothing"
