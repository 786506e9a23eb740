"""The scripted clients as processes, for tests."""

import os
import subprocess
import sys

from kernelarc_mcp.data import data_dir


def start(script: str, *arguments: str, **extra: str) -> subprocess.Popen[str]:
    """Start a client with further environment variables."""
    return subprocess.Popen(
        [sys.executable, str(data_dir("clients") / script), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **extra},
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a client; return its status, output and errors."""
    out, errors = process.communicate(timeout=120)
    return process.returncode, out, errors
