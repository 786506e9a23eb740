"""A profile on a GPU, its process held as far as this machine's profiler bears it (imports torch).

It is held as runners are. Where that gives no counters, a call of our own decides whose doing it was:
if the profiler bears being held with that, the solution's; else it runs behind bubblewrap alone, and
the answer says so. Nothing that a solution does can bring that about.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch

from kernelarc_guard.backend import Backend
from kernelarc_guard.build import Built
from kernelarc_guard.cuda.profiling import NO_TIMELINE, Call, GpuProfile, gpu_room
from kernelarc_guard.faults import Refused
from kernelarc_guard.problem import Problem
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.solution import make_solution

BARE: Final = (
    "held by bubblewrap alone: this machine's profiler does not bear landlock and the system call"
    " filter"
)
_OWN: Final = "def run(x):\n    return x + 1\n"
_OWN_PROBLEM: Final = {
    "definition": {
        "name": "own",
        "axes": {"n": {"type": "const", "value": 4096}},
        "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
        "reference": _OWN,
    },
    "workloads": [{"uuid": "own", "axes": {}}],
}
_OWN_SOLUTION: Final = {
    "name": "own",
    "definition": "own",
    "spec": {
        "languages": ["python"],
        "entry_point": "own.py::run",
        "destination_passing_style": False,
    },
    "sources": [{"path": "own.py", "content": _OWN}],
}


class ProfileRun:
    """Profiles one call, in as many rooms as that takes."""

    def __init__(
        self, sandbox: Sandbox, backend: Backend, folder: Path, tell: Callable[[str], None]
    ) -> None:
        """All files are in `folder`; `tell` is told what is being done."""
        self._sandbox = sandbox
        self._backend = backend
        self._folder = folder
        self._tell = tell

    def run(self, call: Call) -> GpuProfile:
        """Return the profile of a call; Refused where the solution fails in it."""
        first, refused = self._in_room("held", timeline=True), None
        try:
            first.run(call)
        except Refused as error:
            if first.seen.settled:
                raise
            refused = error
        if refused is None and (first.seen.kernels or first.seen.settled):
            return first
        self._tell("trying the profiler on a call of our own")
        if self._bears_being_held():
            if refused is not None:
                raise refused
            return first
        bare = self._in_room("bare", held=False)
        bare.run(call)
        bare.seen.timeline = first.seen.timeline
        bare.seen.notes += [one for one in first.seen.notes if one.startswith(NO_TIMELINE)]
        bare.seen.notes.append(BARE)
        return bare

    def _bears_being_held(self) -> bool:
        root = self._folder / "own"
        root.mkdir()
        (root / "own.py").write_text(_OWN, encoding="utf-8")
        own = Call(
            make_solution(_OWN_SOLUTION),
            Built(root / "own.py", root, "", [], 0.0, False),
            Problem.model_validate(_OWN_PROBLEM),
            0,
            {"x": torch.zeros(4096)},
        )
        try:
            return bool(self._in_room("probe").run(own).kernels)
        except Refused:
            return False

    def _in_room(self, name: str, *, held: bool = True, timeline: bool = False) -> GpuProfile:
        folder = self._folder / name
        folder.mkdir()
        room, tools = gpu_room(self._sandbox, self._backend, folder)
        return GpuProfile(room, tools, self._tell, held=held, timeline=timeline)
