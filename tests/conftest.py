"""What holds for every test process."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from own_device import VARIABLE, interpreter_with_locks_in

from kernelarc_guard import lease


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C reach servers; give a process of pytest-xdist, and its guards, locks of its own."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores it, and so would whatever it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        return
    folder = Path(tempfile.mkdtemp(prefix="kernelarc-locks-"))
    config.add_cleanup(lambda: shutil.rmtree(folder))
    os.environ[VARIABLE] = interpreter_with_locks_in(folder)
    lease.lock_dir = lambda: folder
