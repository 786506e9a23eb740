"""A real campaign on disk for each test, and a guard that never answers."""

from pathlib import Path

import pytest
from command_line import Run, command_line
from host_places import silent_guard as make_silent_guard
from server_campaigns import Place, create


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, as the servers do."""
    return "asyncio"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a fresh campaign of two agents with four attempts each."""
    return create(tmp_path / "campaign")


@pytest.fixture
def silent_guard(tmp_path: Path) -> str:
    """Return a guard interpreter that reads its requests and never answers: all stays queued."""
    return make_silent_guard(tmp_path)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command line and returns status, output and errors."""
    return command_line(monkeypatch, capsys)
