"""Workspaces: the branch's files are put back, and nothing an agent wrote is lost."""

from pathlib import Path

import pytest

from kernelarc_guard.solution import SourceFile
from kernelarc_mcp.host.workspace import write_workspace


def source(path: str, content: str) -> SourceFile:
    return SourceFile(path=path, content=content)


def test_equal_files_stay_and_other_files_are_not_touched(tmp_path: Path) -> None:
    write_workspace(tmp_path, [source("a.py", "one")])
    (tmp_path / "notes.txt").write_text("mine")
    before = (tmp_path / "a.py").stat().st_ino
    assert write_workspace(tmp_path, [source("a.py", "one"), source("sub/b.py", "two")]) == []
    assert (tmp_path / "a.py").stat().st_ino == before
    assert (tmp_path / "sub" / "b.py").read_text() == "two"
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "previous").exists()


def test_each_restore_keeps_what_differed_under_a_number_of_its_own(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "a.py").write_text(f"work {number}")
        assert write_workspace(tmp_path, [source("a.py", "branch")]) == ["a.py"]
    kept = sorted(path.read_text() for path in (tmp_path / "previous").glob("*/a.py"))
    assert kept == ["work 0", "work 1", "work 2"]
    assert (tmp_path / "a.py").read_text() == "branch"


@pytest.mark.parametrize("obstacle", ["directory", "file", "link"])
def test_whatever_stands_in_the_way_is_moved(tmp_path: Path, obstacle: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("not yours")
    folder = tmp_path / "work"
    folder.mkdir()
    if obstacle == "directory":
        (folder / "sub" / "b.py").mkdir(parents=True)
    elif obstacle == "file":
        (folder / "sub").write_text("a file")
    else:
        (folder / "sub").symlink_to(outside)
    moved = write_workspace(folder, [source("sub/b.py", "branch")])
    assert (folder / "sub" / "b.py").read_text() == "branch"
    assert moved == (["sub/b.py"] if obstacle == "directory" else ["sub"])
    assert (outside / "b.py").read_text() == "not yours"


def test_a_link_named_previous_leads_nothing_out_of_the_workspace(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "previous").symlink_to(outside)
    (folder / "a.py").write_text("work")
    write_workspace(folder, [source("a.py", "branch")])
    assert list(outside.iterdir()) == []
    assert (folder / "previous-1" / "001" / "a.py").read_text() == "work"
