"""Campaigns in real directories, and a guard that does what candidates ask of it."""

from pathlib import Path

import pytest
from host_places import make_campaign, scripted_guard


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, as the servers do."""
    return "asyncio"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the directory of a fresh campaign of two agents with ten attempts each."""
    make_campaign(tmp_path / "campaign")
    return tmp_path / "campaign"


@pytest.fixture
def guard(tmp_path: Path) -> str:
    """Return the interpreter of a scripted guard."""
    return scripted_guard(tmp_path)
