"""The sandbox in which a Triton solution's kernels are compiled without a device; light.

A candidate's code runs in it: no network, no device, no file but its own sources, one folder to write to,
and limits on its time, memory, files and processes. What it left there is read when all of it has ended, as
plain files with plain names in the two levels that Triton's cache has.
"""

import json
import os
import re
import secrets
import shutil
import stat
import sys
import tarfile
from pathlib import Path
from typing import Any, Final

from kernelarc_guard import compile_job
from kernelarc_guard.build import Built, Limits
from kernelarc_guard.cgroups import Cgroups
from kernelarc_guard.confinement import SEEN
from kernelarc_guard.scratch import KEPT_BYTES, KEPT_FILES, PLACE, ROOT, files_below, remove
from kernelarc_guard.supervised import Supervisor
from kernelarc_guard.surroundings import CACHES, PASSED_ON, runner_environment

SECONDS: Final = 20.0
"""How long it may take, and what it has still to import."""
_TRITON: Final = CACHES["TRITON_CACHE_DIR"]
_RUN: Final = "kernelarc_guard.triton_ahead"
_GIVEN: Final = "/given"
_JOB: Final = "job.json"
_SOURCES: Final = "src"
_TASKS: Final = 256
_BYTES: Final = 2 * KEPT_BYTES
_ENTRIES: Final = 2 * KEPT_FILES
_OUTPUT_BYTES: Final = 64 << 10
_UNLIMITED: Final = -1
"""Address space is no measure where CUDA's libraries are mapped; what is resident is counted."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,200}")
_GROUP: Final = "__grp__"
"""What Triton's file with a kernel's parts begins with."""


class Room:
    """One sandbox for one solution: used once, started ahead so that all is imported by then."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        """Start it in `folder`, which exists and is empty; `limits.seconds` count from `run` on."""
        self.limits = limits
        self._folder = folder
        self._out = folder / "out"
        (self._out / PLACE).mkdir(parents=True, mode=0o700)
        self._given = folder / "given"
        self._given.mkdir(mode=0o700)
        # As long as a runner's, so that where compilers wrote it down a runner's can take its place.
        self._inside = f"/scratch/{secrets.token_hex(8)}"
        here = f"{self._inside}/{PLACE}"
        environment = runner_environment() | {"HOME": here, "TMPDIR": here}
        environment |= {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environment |= {name: f"{here}/{folder}" for name, folder in CACHES.items()}
        self._supervisor = Supervisor(
            limits.sandbox.command(
                [sys.executable, "-I", "-B", "-m", compile_job.__name__],
                environment=environment,
                readable=[(self._given, _GIVEN)],
                writable=[(self._out, self._inside)],
            ),
            self._job(here, environment),
        )

    def _job(self, here: str, environment: dict[str, str]) -> dict[str, Any]:
        limits = self.limits
        confinement = limits.sandbox.confinement(counted=True).as_json()
        # It imports what is confined already, and looks for it from the folder above: with nothing else in it.
        confinement["readable"] += [_GIVEN, *SEEN, str(Path(__file__).parent.parent)]
        return {
            "command": [sys.executable, "-I", "-B", "-m", _RUN, f"{_GIVEN}/{_JOB}"],
            "cwd": here,
            "env": environment,
            "held": True,
            "seconds": limits.seconds,
            "memory_bytes": _UNLIMITED,
            "file_bytes": KEPT_BYTES,
            "cores": sorted(limits.cores),
            "output_bytes": _OUTPUT_BYTES,
            "confinement": confinement,
            "writable": [here],
            "together": {
                "tasks": _TASKS,
                "memory_bytes": limits.memory_bytes,
                "folder": self._inside,
                "folder_bytes": _BYTES,
                "folder_entries": _ENTRIES,
            },
        }

    def run(self, job: dict[str, Any], built: Built) -> str:
        """Do a job of `triton_ahead` with a built solution; return what kept it from being done whole.

        Raises SupervisorLost where the supervisor itself fails.
        """
        shutil.copytree(built.root, self._given / _SOURCES)
        root = f"{_GIVEN}/{_SOURCES}"
        whole = job | {"entry": f"{root}/{built.entry.relative_to(built.root)}", "root": root}
        (self._given / _JOB).write_text(json.dumps(whole), encoding="utf-8")
        groups = Cgroups(_TASKS, self.limits.memory_bytes)
        try:
            self._supervisor.hold_in(groups)
            self._supervisor.go()
            return self._said(self._supervisor.answer())
        finally:
            groups.remove()

    def close(self) -> None:
        """End it with all that is in it, and remove its files."""
        self._supervisor.end()
        # Whatever modes and depths the solution's code left.
        remove(self._out)
        remove(self._folder)

    def pack(self, archive: Path) -> int:
        """Write what is in its Triton cache into an archive for `Scratch.adopt`; return how many kernels that is.

        There is none where that is nothing, or more than is kept of any first run.
        """
        files = self._files()
        if not files or len(files) > KEPT_FILES or sum(map(_size, files.values())) > KEPT_BYTES:
            return 0
        with tarfile.open(archive, mode="w", pax_headers={ROOT: self._inside}) as tar:
            for name, path in files.items():
                member = tarfile.TarInfo(f"{_TRITON}/{name}")
                member.size, member.mode = _size(path), 0o600
                with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                    tar.addfile(member, file)
        return sum(name.rpartition("/")[2].startswith(_GROUP) for name in files)

    def _said(self, answer: dict[str, Any]) -> str:
        if answer["passed"]:
            return str(answer["passed"])
        if answer["returncode"] is None:
            return f"it was ended after {self.limits.seconds:g} s"
        lines = answer["output"].strip().splitlines() or [""]
        try:
            return "; ".join(map(str, json.loads(lines[-1])["said"]))
        except (ValueError, TypeError, KeyError, RecursionError):  # a solution may have written it
            return f"ended with code {answer['returncode']}: {lines[-1]}"

    def _files(self) -> dict[str, str]:
        """Return the files of its Triton cache by their names below it.

        Everything that ran has ended: what is a folder, or a plain file, now stays one.
        """
        root = self._out / PLACE
        for part in Path(_TRITON).parts:
            root /= part
            if not os.path.isdir(root) or os.path.islink(root):
                return {}
        found = {}
        for path, _ in files_below(root) or []:
            name = os.path.relpath(path, root)
            parts = name.split("/")
            plain = len(parts) == 2 and all(map(_NAME.fullmatch, parts))
            if plain and stat.S_ISREG(os.lstat(path).st_mode):
                found[name] = path
        return found


def _size(path: str) -> int:
    return os.lstat(path).st_size
