"""Puts the clients' folder on the path, and undoes what loading their kernels does to the process."""

import sys
from collections.abc import Iterator

import pytest
import torch
from command_line import Run, command_line

from kernelarc_mcp.data import data_dir

sys.path.insert(0, str(data_dir("clients")))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command line and returns status, output and errors."""
    return command_line(monkeypatch, capsys)


@pytest.fixture(autouse=True)
def subnormals() -> Iterator[None]:
    """Give the process its subnormal numbers back: loading a -ffast-math library flushes them."""
    yield
    torch.set_flush_denormal(False)
