"""Build a solution: write its sources, compile native ones under limits, cache by content.

Nothing of the solution runs here. Entries of the cache are complete or absent, so several guards
may share one; a failed build is not kept.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from kernelarc_guard import compile_job
from kernelarc_guard.cache_limit import LOCKS, prune_sometimes, used
from kernelarc_guard.entries import MESSAGES, NATIVE, READ_MESSAGES, new_entry, write_sources
from kernelarc_guard.languages import absent
from kernelarc_guard.protocol import BuildMessage
from kernelarc_guard.recipes import (
    BINARY,
    LOOP,
    SOURCES,
    BuildFailed,
    BuildHeld,
    Recipe,
    gpu_recipe,
    host_recipe,
)
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.solution import Solution
from kernelarc_guard.supervised import supervise

__all__ = ["BuildFailed", "BuildHeld", "Built", "Limits", "build", "run_in_builder"]

_FORMAT: Final = 2
"""Part of every key: raise it when what a build does changes."""
_WORK: Final = "/build"
"""Where a sandboxed compiler sees the work folder."""
_OUTPUT_BYTES: Final = 256 << 10
_FILE_BYTES: Final = 512 << 20
_GRACE_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Built:
    """A solution that is ready to be loaded."""

    entry: Path
    """The shared object, or the Python file with the entry function."""
    root: Path
    """The folder with the sources."""
    digest: str
    """SHA-256, in hex, of what runs: the shared object or the sources, and the entry function."""
    messages: list[BuildMessage]
    seconds: float
    cached: bool
    ahead: Path | None = None
    """Where the archive is of what was compiled of it before any run, if there is one (`kernels_ahead.py`)."""


@dataclass(frozen=True)
class Limits:
    """What holds a compiler."""

    seconds: float
    memory_bytes: int
    sandbox: Sandbox
    cores: frozenset[int] = frozenset()
    """Where it may run; empty: anywhere."""


def build(
    solution: Solution,
    cache_dir: Path,
    *,
    seconds: float,
    memory_bytes: int,
    sandbox: Sandbox,
    gpu: str = "",
    cores: frozenset[int] = frozenset(),
) -> Built:
    """Build a solution, or find it built, in the cache.

    A native build runs in `sandbox` on `cores` (none: on any), and ends after `seconds` and within
    `memory_bytes` of address space. CUDA C++ needs the architecture of a `gpu`, as in ``90a``.
    Raises BuildFailed; its detail says whether the solution is at fault or this machine lacks a
    compiler or a package.
    """
    started = time.monotonic()
    cache_dir.mkdir(parents=True, exist_ok=True)
    if solution.is_native:
        job = Limits(seconds, memory_bytes, sandbox, cores)
        recipe = gpu_recipe(solution, gpu) if gpu else host_recipe(solution)
        return _build_native(solution, cache_dir, recipe, job, started)
    if missing := absent(solution.spec.languages):
        raise BuildFailed("build_failed", missing)
    return _place_python(solution, cache_dir, seconds, started)


def _place_python(solution: Solution, cache_dir: Path, seconds: float, started: float) -> Built:
    sources = sorted((source.path, source.content) for source in solution.sources)
    spec = solution.spec
    digest = _digest([sources, spec.entry_point, spec.destination_passing_style])
    final = cache_dir / "python" / digest
    root = final / SOURCES
    with _locked(cache_dir, digest, seconds):
        # A solution may have written to its own folder since: what runs is what was submitted.
        cached = _holds_exactly(root, solution)
        if not cached:
            with new_entry(cache_dir, final) as work:
                write_sources(work, solution)
        used(final)
    if not cached:
        prune_sometimes(cache_dir)
    took = time.monotonic() - started
    return Built(root / solution.entry_file, root, digest, [], took, cached)


def _build_native(
    solution: Solution, cache_dir: Path, recipe: Recipe, limits: Limits, started: float
) -> Built:
    sources = sorted((source.path, source.content) for source in solution.sources)
    key = _digest([_FORMAT, recipe.identity, recipe.command, sources])
    final = cache_dir / NATIVE / key
    with _locked(cache_dir, key, limits.seconds):
        cached = (final / BINARY).is_file()
        if not cached:
            with new_entry(cache_dir, final) as work:
                _compile(solution, work, recipe, limits)
        used(final)
    if not cached:
        prune_sometimes(cache_dir)
    binary = hashlib.sha256((final / BINARY).read_bytes()).hexdigest()
    return Built(
        entry=final / BINARY,
        root=final / SOURCES,
        # One shared object may hold several kernels.
        digest=_digest([binary, solution.entry_function]),
        messages=READ_MESSAGES.validate_json((final / MESSAGES).read_bytes()),
        seconds=time.monotonic() - started,
        cached=cached,
    )


def _compile(solution: Solution, work: Path, recipe: Recipe, limits: Limits) -> None:
    """Compile the sources into the work folder; raises BuildFailed."""
    write_sources(work, solution)
    if recipe.loop:
        shutil.copy(LOOP, work / LOOP.name)
    mapped = f"{recipe.prefix_map}={_inside(work, limits.sandbox)}=."
    answer = run_in_builder([*recipe.command, mapped], work, limits)
    seconds = limits.seconds
    output: str = answer["output"]
    messages = recipe.read(output, SOURCES, solution.entry_file)
    if answer["returncode"] is None:
        raise BuildFailed("timeout", f"the compiler took more than {seconds:g} s", messages)
    if answer["returncode"] != 0 or not (work / BINARY).is_file():
        raise BuildFailed("build_failed", _why(messages, output, answer["returncode"]), messages)
    (work / MESSAGES).write_bytes(READ_MESSAGES.dump_json(messages))


def _inside(work: Path, sandbox: Sandbox) -> str:
    """Return where a builder sees its work folder."""
    return _WORK if sandbox.bubblewrap else str(work)


def run_in_builder(command: list[str], work: Path, limits: Limits) -> dict[str, Any]:
    """Run a command as a builder runs its compiler: in the folder `work`, and writing to it alone.

    The answer is that of `compile_job.run_job`.
    """
    inside = _inside(work, limits.sandbox)
    with tempfile.TemporaryDirectory(prefix="compile-", dir=work.parent) as private:
        temporary = "/tmp" if limits.sandbox.bubblewrap else private
        return _run_job(
            {
                "command": command,
                "cwd": inside,
                "env": {
                    "PATH": os.environ.get("PATH", os.defpath),
                    "LANG": "C",
                    "TMPDIR": temporary,
                    "SOURCE_DATE_EPOCH": "0",
                },
                "seconds": limits.seconds,
                "memory_bytes": limits.memory_bytes,
                "file_bytes": _FILE_BYTES,
                "cores": sorted(limits.cores),
                "output_bytes": _OUTPUT_BYTES,
                "confinement": limits.sandbox.confinement(counted=True).as_json(),
                "writable": [inside, temporary],
            },
            limits.sandbox,
            work,
        )


def _why(messages: Sequence[BuildMessage], output: str, returncode: int) -> str:
    first = next((message for message in messages if message.severity == "error"), None)
    if first is not None:
        place = f"{first.file}:{first.line}: " if first.line else ""
        return f"{place}{first.message}"
    if returncode < 0:
        return f"the compiler was killed by signal {-returncode}"
    return f"the compiler failed with code {returncode}: {output[-2000:].strip()}"


def _run_job(job: dict[str, Any], sandbox: Sandbox, work: Path) -> dict[str, Any]:
    """Run a compiler in a supervisor that outlives neither its deadline nor this process."""
    words = sandbox.command(
        [sys.executable, "-I", "-B", "-m", compile_job.__name__],
        environment=job["env"],
        writable=[(work, _WORK)],
    )
    return supervise(words, job)


@contextmanager
def _locked(cache_dir: Path, key: str, seconds: float) -> Iterator[None]:
    """Hold the lock of one entry, so that only one process builds it."""
    locks = cache_dir / LOCKS
    locks.mkdir(exist_ok=True)
    try:
        with FileLock(locks / f"{key}.lock", timeout=seconds + _GRACE_SECONDS):
            yield
    except Timeout:
        raise BuildHeld(
            "timeout", "another process has been building the same sources for too long"
        ) from None


def _holds_exactly(root: Path, solution: Solution) -> bool:
    """Say whether the folder has the solution's files and no other."""
    wanted = {root / source.path: source.content.encode() for source in solution.sources}
    found = {path for path in root.rglob("*") if not path.is_dir()}
    return found == set(wanted) and all(
        not path.is_symlink() and path.read_bytes() == content for path, content in wanted.items()
    )


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
