"""What can be said of a solution on a CPU without its counters: rates, and its machine code (torch)."""

import shlex
import shutil
from pathlib import Path
from typing import Final

from kernelarc_guard.assembly import read_assembly
from kernelarc_guard.bottleneck import Found, of_shares
from kernelarc_guard.build import Built
from kernelarc_guard.counting import count_work
from kernelarc_guard.inquiries import ProfileRequest
from kernelarc_guard.measuring_roofs import measure_roofs
from kernelarc_guard.profile_model import MachineCode
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.supervised import Room

_SECONDS: Final = 60.0
_CODE_BYTES: Final = 64 << 20
_NO_COUNTERS: Final = "no counters: on a CPU none are read; shares are of rates measured here"
_INTERPRETED: Final = "no machine code: the solution is Python"


class CpuProfile:
    """One profile; nothing of the solution runs, its times are those it was judged by."""

    def __init__(self, request: ProfileRequest, index: int, sandbox: Sandbox, folder: Path) -> None:
        """`index` is the workload's; `folder` takes files."""
        self._request = request
        self._index = index
        self._sandbox = sandbox
        self._folder = folder
        self.notes = [_NO_COUNTERS]
        self.files: list[Path] = []

    def bottleneck(self) -> tuple[Found, dict[str, float]]:
        """Return the bottleneck and the share of each rate that the measured call reached."""
        request = self._request
        if request.call_us is None:
            return Found("unknown", "The solution was never timed on this workload."), {}
        chosen = {"workloads": request.problem.workloads[self._index : self._index + 1]}
        problem = request.problem.model_copy(update=chosen)
        threads = problem.definition.kernelarc.threads
        (work,) = count_work(problem, "cpu")
        roofs = measure_roofs("cpu", "cpu", threads)
        rulers, seconds = request.rulers, request.call_us / 1e6
        copies = max(
            roofs.memory.per_second if roofs.memory else 0.0,
            rulers.copy_bytes_per_second * threads if rulers else 0.0,
        )
        memory = (work.read_bytes + work.written_bytes) / copies / seconds if copies else None
        if work.operations is None:
            self.notes.append(work.how)
        operations = sum((work.operations or {}).values())
        rate = max(one.per_second for one in roofs.matrix.values())
        matrix = operations / rate / seconds if operations else None
        empty = rulers.empty_window_ns / 1e3 if rulers else 0.0
        shares = {"memory": memory, "matrix": matrix}
        told = {name: round(share, 3) for name, share in shares.items() if share is not None}
        return of_shares(memory, matrix, request.call_us, empty), told

    def machine_code(self, built: Built) -> MachineCode | None:
        """Count the instructions of a compiled solution; None where there are none to be had."""
        if built.entry.is_relative_to(built.root):
            if _INTERPRETED not in self.notes:
                self.notes.append(_INTERPRETED)
            return None
        program = shutil.which("objdump")
        if program is None:
            self.notes.append("no machine code: objdump is not installed on this machine")
            return None
        given, out = (self._folder / f"{built.digest[:12]}-{one}" for one in ("given", "out"))
        for folder in (given, out):
            folder.mkdir(exist_ok=True)
        library, target = given / built.entry.name, out / f"{built.digest[:12]}.asm.txt"
        shutil.copy(built.entry, library)
        room = Room(self._sandbox, given=given, out=out)
        words = [program, "--disassemble", "--no-show-raw-insn", room.inside(library)]
        script = f"{shlex.join(words)} > {shlex.quote(room.inside(target))}"
        room.run(["/bin/sh", "-c", script], _SECONDS)
        if target.stat().st_size > _CODE_BYTES:
            self.notes.append(f"no machine code: its text has more than {_CODE_BYTES} bytes")
            return None
        code = read_assembly(target.read_text(encoding="utf-8", errors="replace"))
        if not code.instructions:
            self.notes.append("no machine code: it could not be disassembled")
            return None
        self.files.append(target)
        return code
