"""The demo's processes: started, followed, and all gone when it ends."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from host_places import scripted_guard
from server_process import COMMAND

from kernelarc_mcp.cli import demo
from kernelarc_mcp.cli.main import main


def _guard(folder: Path) -> list[str]:
    return ["--guard-python", scripted_guard(folder)]


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
        [*COMMAND, "demo", "--dir", str(folder), "--seconds", "0.5", *_guard(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = ended.stdout
    order = ["calibrating: ", "calibrated: ", "measuring the reference as a line", " the record"]
    places = [said.index(words) for words in order]
    assert places == sorted(places), said
    assert "Stopped 0.5 s after the first verdict" in said
    assert "verify: every counter and verdict recomputed" in ended.stdout
    assert str(folder) in ended.stdout.strip().splitlines()[-1]
    assert _processes_naming(str(folder)) == []
    assert {path.name for path in (folder / "logs").glob("[!.]*")} == {
        "server.log",
        "server.out",
        "verdicts.log",
        "agent-1.log",
        "agent-2.log",
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_demo_that_is_told_to_end_ends_its_processes_and_says_where_the_campaign_is(
    tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "demo"
    process = subprocess.Popen(
        [*COMMAND, "demo", "--dir", str(folder), *_guard(tmp_path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "calibrating: " in line:
            break
    process.send_signal(number)
    said = process.communicate(timeout=300)[0]
    assert "Stopped by" in said and str(folder) in "".join(said.split()), said
    assert "Traceback" not in said
    assert process.returncode == 128 + number
    assert _processes_naming(str(folder)) == []


def test_a_demo_that_reaches_no_verdict_says_so_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "_FIRST_SECONDS", 2.0)
    broken = tmp_path / "guard"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    folder = str(tmp_path / "demo")
    arguments = ["demo", "--dir", folder, "--seconds", "1", "--guard-python", str(broken)]
    monkeypatch.setattr("sys.argv", ["kernelarc-mcp", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "No verdict was reached within 2 s: " in capsys.readouterr().out


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
