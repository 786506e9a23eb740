"""Profiling on a GPU with stand-ins for the profiler and the disassembler: rooms, files, refusals."""

import json
from pathlib import Path

import pytest
import torch
from guard_process import DLPACK, REFERENCE, cpp, problem, python

from kernelarc_guard import profiling as asking_profiling
from kernelarc_guard.backend import CpuBackend
from kernelarc_guard.build import Built
from kernelarc_guard.cuda import profiling
from kernelarc_guard.cuda.cupti_recorder import ABSENT
from kernelarc_guard.cuda.left_behind import CallFailed
from kernelarc_guard.cuda.ncu import Ncu
from kernelarc_guard.cuda.nvcc import Nvcc
from kernelarc_guard.cuda.profile_run import BARE, ProfileRun
from kernelarc_guard.faults import Refused
from kernelarc_guard.inputs import Value
from kernelarc_guard.inquiries import ProfileRequest
from kernelarc_guard.problem import Problem
from kernelarc_guard.profiling import Profiler
from kernelarc_guard.sandbox import Sandbox, find_sandbox
from kernelarc_guard.solution import make_solution
from kernelarc_guard.supervised import Room
from kernelarc_guard.timeline_model import Timeline

UNRECORDED = f"{profiling.NO_TIMELINE}{ABSENT}"
DATA = Path(__file__).parent.parent / "data" / "profiles"
PROFILER = """#!/bin/sh
here=$(dirname "$0")
case "$*" in
  *--import*) cat "$here/table.csv";;
  *) out=""; last=""
     for word in "$@"; do [ "$last" = "--export" ] && out="$word"; last="$word"; done
     cat "$here/says"
     # A machine whose profiler does not bear a process that is held.
     job=""; for word in "$@"; do case "$word" in *job.json) job="$word";; esac; done
     [ -e "$here/bare" ] && ! grep -q '"confinement": null' "$job" && exit 1
     # A solution that keeps the profiler from its work.
     [ -e "$here/spoils" ] && grep -q '"value": 1.5' "$job" && exit 1
     [ -e "$here/link" ] && ln -s "$here/table.csv" "$(dirname "$out")/jit.cubin" && mkdir "$(dirname "$out")/metrics.csv"
     [ -s "$here/told" ] && cp "$here/told" "$last"
     [ -s "$here/report" ] && cp "$here/report" "$out"
     [ -e "$here/many" ] && for n in $(seq 70); do cp "$here/report" "$(dirname "$out")/cache/$n.cubin"; done
     [ -e "$here/shut" ] && chmod 000 "$(dirname "$out")/cache" "$(dirname "$out")"
     [ -e "$here/floods" ] && mkdir "$(dirname "$out")/x" && chmod 000 "$(dirname "$out")/x" && sleep 600
     [ -s "$here/cubin" ] && cp "$here/cubin" "$(dirname "$out")/cache/jit.cubin"
     exit 0;;
esac
"""


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    """Return what this machine offers; without bubblewrap there is no room to test."""
    found = find_sandbox()
    if not found.bubblewrap:
        pytest.skip("no bubblewrap here")
    return found


class Stand:
    """A profiler that does as its files say, and a profile in rooms of its own."""

    def __init__(self, folder: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tools = folder / "toolkit" / "bin"
        self.tools.mkdir(parents=True)
        self.write("ncu", PROFILER).chmod(0o755)
        # The disassembler: prints what it is given a text of.
        self.write("cuobjdump", '#!/bin/sh\ncat "$2"\n').chmod(0o755)
        for name, content in (("table.csv", (DATA / "bandwidth.csv").read_text()), ("report", "r")):
            self.write(name, content)
        for name in ("says", "told", "cubin"):
            self.write(name, "")
        ncu, root = Ncu(str(self.tools / "ncu"), str(self.tools)), str(self.tools.parent)
        monkeypatch.setattr(profiling, "find_ncu", lambda: ncu)
        monkeypatch.setattr(profiling, "installed", lambda: False)
        monkeypatch.setattr(profiling, "find_nvcc", lambda: Nvcc("nvcc", root, "a stand-in"))
        self.sandbox = sandbox
        self.folder = folder / "run"
        self.folder.mkdir()

    def write(self, name: str, content: str) -> Path:
        """Write one of the profiler's files."""
        path = self.tools / name
        path.write_text(content)
        return path

    def run(self, *, native: bool = False) -> profiling.Seen:
        """Profile a call."""
        root = self.folder.parent / "built" / "src"
        root.mkdir(parents=True)
        body = cpp(DLPACK) if native else python(REFERENCE)
        (root / body["sources"][0]["path"]).write_text(body["sources"][0]["content"])
        entry = root / "kernel.py"
        if native:
            entry = root.parent / "kernel.so"
            entry.write_text((DATA / "sm90.sass.txt").read_text())
        built = Built(entry, root, "d" * 64, [], 0.0, False)
        inputs: dict[str, Value] = {"x": torch.zeros(1000), "scale": 1.5}
        made = Problem.model_validate(problem())
        runs = ProfileRun(self.sandbox, CpuBackend(), self.folder, lambda said: None)
        return runs.run(profiling.Call(make_solution(body), built, made, 0, inputs)).seen


@pytest.fixture
def stand(tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Return a stand with a report, a table and a library's machine code."""
    return Stand(tmp_path, sandbox, monkeypatch)


def test_a_compiled_solution_is_read_from_counters_and_its_library(stand: Stand) -> None:
    seen = stand.run(native=True)
    assert seen.kernels[0].name == "scale_rows<float, 4>"
    assert seen.code is not None and seen.code.matrix == {"HGMMA": 2, "HMMA": 1}
    assert [path.name for path in seen.files] == ["report.ncu-rep", "metrics.csv", "sass.txt"]
    assert seen.notes == [UNRECORDED] and seen.timeline is None


def test_what_a_solution_compiled_while_it_ran_is_disassembled_too(stand: Stand) -> None:
    stand.write("cubin", (DATA / "sm90.sass.txt").read_text())
    seen = stand.run()
    assert seen.code is not None and seen.code.spill_stores == 1


def test_a_solution_that_only_calls_a_library_has_no_machine_code_of_its_own(stand: Stand) -> None:
    seen = stand.run()
    assert seen.code is None and seen.notes == [UNRECORDED, profiling.LIBRARY_ONLY]


def test_counters_that_are_not_permitted_are_a_note_and_the_machine_code_is_there(
    stand: Stand,
) -> None:
    stand.write("report", "")
    stand.write("says", "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
    seen = stand.run(native=True)
    assert seen.kernels == [] and seen.code is not None
    assert any("NVreg_RestrictProfilingToAdminUsers" in note for note in seen.notes)


def test_a_report_without_a_table_is_a_note(stand: Stand) -> None:
    stand.write("table.csv", "==ERROR== nothing to see\n")
    assert any("table has no kernels" in note for note in stand.run().notes)


def test_a_solution_that_fails_below_the_profiler_is_refused_with_its_words(stand: Stand) -> None:
    stand.write("told", '{"error": "ValueError: not today"}')
    with pytest.raises(Refused, match="failed while it was profiled: ValueError: not today"):
        stand.run()


def test_where_the_profiler_does_not_bear_it_bubblewrap_alone_holds_and_that_is_said(
    stand: Stand,
) -> None:
    stand.write("bare", "yes")
    seen = stand.run()
    assert seen.kernels and BARE in seen.notes


def test_a_solution_that_spoils_its_own_profile_is_held_all_the_same(stand: Stand) -> None:
    stand.write("spoils", "yes")
    seen = stand.run()
    assert seen.kernels == [] and BARE not in seen.notes
    assert any("left no report" in note for note in seen.notes)


def test_what_a_solution_leaves_is_read_only_where_it_is_a_plain_file(stand: Stand) -> None:
    stand.write("told", '["no object"]')
    stand.write("link", "yes")
    seen = stand.run()
    assert seen.kernels and seen.code is None


def test_a_report_that_a_solution_wrote_itself_breaks_nothing(stand: Stand) -> None:
    table = (DATA / "bandwidth.csv").read_text()
    stand.write("table.csv", table.replace("scale_rows<float, 4>", "a\x1b[2Jb" + "c" * 500))
    seen = stand.run()
    assert seen.kernels[0].name.startswith("a?[2Jb") and len(seen.kernels[0].name) == 80


def test_of_very_many_binaries_some_are_read_and_that_is_said(stand: Stand) -> None:
    stand.write("many", "yes")
    assert "6 of its 70 compiled binaries were not read" in stand.run().notes


def test_folders_that_a_solution_shut_are_no_fault_of_the_guard(stand: Stand) -> None:
    stand.write("shut", "yes")
    seen = stand.run(native=True)
    assert seen.code is not None


def test_a_solution_that_passes_a_limit_below_the_profiler_failed(stand: Stand) -> None:
    stand.write("floods", "yes")
    with pytest.raises(CallFailed, match="passed a limit .* files that cannot be counted"):
        stand.run()


def test_a_failure_is_one_line_of_printable_characters(stand: Stand) -> None:
    stand.write("told", json.dumps({"error": "E: \x1b[31m" + "x" * 900 + "\nmore"}))
    with pytest.raises(CallFailed) as failed:
        stand.run()
    told = str(failed.value)
    assert told.isprintable() and len(told) < 400 and told.endswith("...")


def test_a_solution_that_fails_below_the_profiler_is_answered_and_so_charged(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand.write("told", '{"error": "ValueError: not today"}')
    backend = CpuBackend()
    monkeypatch.setattr(backend, "place", "cpu:0")
    monkeypatch.setattr(asking_profiling, "device_name", lambda place: "a stand-in")
    request = ProfileRequest.model_validate(
        {
            "id": "q",
            "cache_dir": str(tmp_path / "cache"),
            "problem": problem(),
            "candidate": python(REFERENCE),
            "workload": "small",
        }
    )
    profiler = Profiler(request, backend, stand.sandbox, tmp_path / "run", lambda *said: None)
    profile, files = profiler.run()
    assert (profile.bottleneck, files) == ("unknown", [])
    assert "failed while it was profiled: ValueError: not today" in profile.why


def test_a_profiler_that_lies_in_the_home_directory_itself_is_not_shown(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(stand.tools))
    with pytest.raises(Refused, match="would show .* to candidates.*take it off the PATH"):
        stand.run()


def test_where_cupti_cannot_be_used_a_profile_goes_on_with_counters_and_says_why(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The process that records is a real one; it has no package, no driver, or no device.
    monkeypatch.setattr(profiling, "installed", lambda: True)
    seen = stand.run()
    assert seen.kernels and seen.timeline is None
    assert seen.notes[0].startswith("no timeline: "), seen.notes
    assert "left nothing" not in seen.notes[0]


def test_a_timeline_is_kept_where_the_profiler_does_not_bear_being_held(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Timeline(
        queued=True, span_us=1, busy_us=1, kernels=1, launches=1, streams=1, said="One."
    )
    rooms: list[Room] = []

    def recorded(room: Room, job: Path) -> Timeline:
        assert '"confinement": {' in job.read_text()
        rooms.append(room)
        return made

    monkeypatch.setattr(profiling, "installed", lambda: True)
    monkeypatch.setattr(profiling, "trace", recorded)
    stand.write("bare", "yes")
    seen = stand.run()
    assert seen.kernels and BARE in seen.notes
    assert seen.timeline == made and len(rooms) == 1, "a call is recorded once, and held"
