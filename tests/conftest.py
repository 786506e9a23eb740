"""What holds for every test process."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from own_device import VARIABLE, interpreter_with_locks_in

from kernelarc_guard import lease


def pytest_configure(config: pytest.Config) -> None:
    """Give a process that pytest-xdist started, and its guards, device locks of their own."""
    if not hasattr(config, "workerinput"):
        return
    folder = Path(tempfile.mkdtemp(prefix="kernelarc-locks-"))
    config.add_cleanup(lambda: shutil.rmtree(folder))
    os.environ[VARIABLE] = interpreter_with_locks_in(folder)
    lease.lock_dir = lambda: folder
