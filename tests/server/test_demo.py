"""The demo's processes: started, followed, and all gone when it ends."""

import subprocess
from pathlib import Path

from server_process import COMMAND


def _processes_naming(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text in command:
            found.append(command)
    return found


def test_a_demo_cut_short_leaves_a_sound_campaign_and_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    ended = subprocess.run(
        [*COMMAND, "demo", "--dir", str(folder), "--attempts", "2", "--seconds", "4"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Stopped after 4 s" in ended.stdout
    assert "verify: every counter and verdict recomputed" in ended.stdout
    assert str(folder) in ended.stdout.strip().splitlines()[-1]
    assert _processes_naming(str(folder)) == []
    assert {path.name for path in (folder / "logs").iterdir()} == {
        "server.log",
        "agent-1.log",
        "agent-2.log",
    }


def test_a_demo_does_not_touch_a_directory_in_use(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    ended = subprocess.run(
        [*COMMAND, "demo", "--dir", str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "not empty" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
