"""The real guard with device locks of its own, so that test processes beside each other do not wait.

The product has no such setting: one machine, one measurement at a time. Tests assert no times that
noise could change, so the guards of several test processes may measure at once.
"""

import os
import sys
from pathlib import Path

VARIABLE = "KERNELARC_GUARD_PYTHON"
_PROGRAM = """#!{python} -I
import os, runpy, sys
from pathlib import Path
if sys.argv[1:4] != ["-I", "-m", "kernelarc_guard"]:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
from kernelarc_guard import lease
lease.lock_dir = lambda: Path({folder!r})
name, *arguments = sys.argv[3:]
sys.argv[1:] = arguments
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""


def interpreter_with_locks_in(folder: Path) -> str:
    """Return what takes the place of the guard's interpreter and keeps its locks in `folder`."""
    script = folder / "guard-python"
    script.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
    script.chmod(0o755)
    return str(script)


def guard_python() -> str:
    """Return the interpreter of real guards: this one, unless test processes run side by side."""
    return os.environ.get(VARIABLE, sys.executable)
