"""Runners that were forked before anybody needed them, and what first runs leave for other nurseries."""

import os
import signal
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from guard_process import python
from laboratory import SCHEDULE, Laboratory

from kernelarc_guard.arm import Arm
from kernelarc_guard.build import build
from kernelarc_guard.faults import Refused, SolutionFault
from kernelarc_guard.keeper import Nursery
from kernelarc_guard.processes import descendants
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.scratch import ROOT, Scratch
from kernelarc_guard.solution import Solution
from kernelarc_guard.warming import WARMED_FOR

RIGHT = "def run(x, scale):\n    return x * scale\n"
LEAVES_A_NOTE = (
    "import os\n"
    "here = sorted(os.listdir('.'))\n"
    "os.makedirs('deep/er', exist_ok=True)\n"
    "open(f'deep/er/note-{len(here)}', 'w').close()\n"
    "os.symlink('/nowhere', 'link') if not here else None\n"
    "def run(x, scale):\n    raise RuntimeError(f'saw {here} {sorted(os.listdir(\"deep/er\"))}')\n"
)


def test_what_is_set_aside_elsewhere_names_its_own_place_there(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        root.mkdir()
    first, second = Scratch(roots[0]), Scratch(roots[1])
    folder = first.make("1")
    (folder / "group.json").write_text(f'{{"child": "{folder}/kernel.cubin"}}')
    (folder / "kernel.cubin").write_bytes(b"\0code")
    (folder / "link").symlink_to("group.json")
    assert first.keep("1")
    archive = first.pack()
    assert archive is not None
    second.adopt(archive)
    os.close(archive)
    copy = second.make("2")
    assert copy == roots[1] / folder.name
    assert (copy / "link").read_text() == f'{{"child": "{copy}/kernel.cubin"}}'
    assert (copy / "kernel.cubin").read_bytes() == b"\0code"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Laboratory]:
    with Laboratory(tmp_path) as made:
        yield made


def test_runners_forked_ahead_live_through_the_windows_of_others(lab: Laboratory) -> None:
    lab.nursery.fork_ahead(3, frozenset(), {})
    first = lab.start(RIGHT, slot=0)
    for _ in range(5):
        lab.call(first)
    second = lab.start(RIGHT, slot=1)
    for _ in range(5):
        lab.call(first)
        lab.call(second)
    first.close()
    second.close()
    assert not lab.notes


def test_a_runner_that_rests_stands_still_beside_windows_and_works_once_it_is_used(
    lab: Laboratory,
) -> None:
    before = set(descendants(lab.nursery.pid))
    lab.nursery.fork_ahead(1, frozenset(), {})
    (blank,) = set(descendants(lab.nursery.pid)) - before
    assert lab.nursery.ahead == 1
    lab.nursery.ask({"op": "rest", "runners": [1]}, 20.0)
    own = lab.nursery._fork(frozenset(), {})  # beside the one that was forked ahead
    lab.nursery._stock.appendleft(own)
    first = lab.start(RIGHT, slot=0)
    lab.call(first)
    if find_sandbox().bubblewrap:  # elsewhere a seal stops nobody else
        assert "State:\tT" in Path(f"/proc/{blank}/status").read_text()
    second = lab.start(RIGHT, slot=1)
    for _ in range(3):
        lab.call(first)
        lab.call(second)
    first.close()
    second.close()
    assert not lab.notes


def test_a_runner_forked_with_another_environment_is_not_taken(lab: Laboratory) -> None:
    lab.nursery.fork_ahead(1, frozenset(), {"FORKED_AHEAD": "yes"})
    source = "import os\nassert 'FORKED_AHEAD' not in os.environ\n" + RIGHT
    arm = lab.start(source)
    lab.call(arm)
    arm.close()


def test_a_runner_that_ended_before_it_was_needed_is_no_solutions_fault(lab: Laboratory) -> None:
    before = set(descendants(lab.nursery.pid))
    lab.nursery.fork_ahead(1, frozenset(), {})
    (blank,) = set(descendants(lab.nursery.pid)) - before
    os.kill(blank, signal.SIGKILL)
    while Path(f"/proc/{blank}/status").read_text().find("State:\tZ") < 0:
        pass
    with pytest.raises(Refused, match="ended before it was given anything"):
        lab.start(RIGHT)
    arm = lab.start(RIGHT)
    lab.call(arm)
    arm.close()


def test_cleaning_ends_runners_that_nobody_needed(lab: Laboratory) -> None:
    before = set(descendants(lab.nursery.pid))
    lab.nursery.fork_ahead(2, frozenset(), {})
    assert lab.nursery.clean() == 0  # they are runners, not what runners left
    assert set(descendants(lab.nursery.pid)) == before


def test_what_a_first_run_left_reaches_the_same_solution_in_another_nursery(
    tmp_path: Path, lab: Laboratory
) -> None:
    first = lab.start(LEAVES_A_NOTE)
    with pytest.raises(SolutionFault, match=r"saw \[\]"):
        lab.call(first)
    first.keep_scratch()
    first.close()
    (tmp_path / "other").mkdir()
    with Laboratory(tmp_path / "other") as other:
        other.nursery.keepsakes = lab.nursery.keepsakes
        for slot in (0, 1, 1):
            again = other.start(LEAVES_A_NOTE, slot=slot)
            with pytest.raises(
                SolutionFault, match=r"saw \['deep', 'link'\] \['note-0', 'note-2'\]"
            ):
                other.call(again)
            again.close()
        stranger = other.start(LEAVES_A_NOTE + "# another solution\n", slot=2)
        with pytest.raises(SolutionFault, match=r"saw \[\]"):
            other.call(stranger)
        stranger.close()


def test_what_was_compiled_ahead_reaches_the_first_runner_and_what_that_leaves_later_ones(
    tmp_path: Path, lab: Laboratory
) -> None:
    left = tmp_path / "left.tar"
    with tarfile.open(left, mode="w", pax_headers={ROOT: "/scratch/0123456789abcdef"}) as tar:
        tar.addfile(tarfile.TarInfo("deep/er/kernel"), None)
    counting = LEAVES_A_NOTE.replace("{len(here)}", '{len(os.listdir("deep/er"))}')
    solution = Solution.model_validate(python(counting))
    built = build(solution, tmp_path, seconds=60, memory_bytes=1 << 30, sandbox=lab.sandbox)
    ahead = replace(built, ahead=left)
    for notes in ("'note-1'", "'note-1', 'note-2'", "'note-1', 'note-2'"):
        arm = Arm(lab.nursery, solution, ahead, lab.drawer, SCHEDULE, 1, note=lab.notes.append)
        with pytest.raises(SolutionFault, match=rf"\['kernel', {notes}\]"):
            lab.call(arm)
        arm.keep_scratch()
        arm.close()
    stranger = lab.start(LEAVES_A_NOTE + "# another solution\n", slot=2)
    with pytest.raises(SolutionFault, match=r"saw \[\]"):
        lab.call(stranger)
    stranger.close()
    left.unlink()
    lab.nursery.clean()
    gone = Arm(lab.nursery, solution, ahead, lab.drawer, SCHEDULE, 0, note=lab.notes.append)
    gone.close()


def test_a_runner_that_cannot_open_the_device_is_no_solutions_fault(tmp_path: Path) -> None:
    # There is no such device here, or it is not shown.
    with (tmp_path / "log").open("wb") as log:
        nursery = Nursery(find_sandbox(), tmp_path / "nursery", log, environment={WARMED_FOR: "90"})
        try:
            nursery.fork_ahead(1, frozenset(), {})
            with pytest.raises(Refused, match="could not open the device"):
                nursery.wait_ahead()
            nursery.drop_ahead()
        finally:
            nursery.close()
