"""The build cache stays within its limits, and what killed builds left goes."""

import os
from pathlib import Path

import pytest
from filelock import FileLock

from kernelarc_guard import cache_limit
from kernelarc_guard.build import build
from kernelarc_guard.cache_limit import prune
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.scratch import remove
from kernelarc_guard.solution import make_solution

MANY = 1 << 40
HOUR = 3600.0


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a cache of ten entries of 1000 bytes, the first one unused for the longest."""
    for number in range(10):
        entry = tmp_path / "python" / f"key{number}"
        entry.mkdir(parents=True)
        (entry / "kernel.py").write_bytes(b"x" * 1000)
        os.utime(entry, (1_000_000 + number, 1_000_000 + number))
        (tmp_path / "locks").mkdir(exist_ok=True)
        (tmp_path / "locks" / f"key{number}.lock").touch()
    return tmp_path


def left(cache: Path) -> list[str]:
    """Return what entries there are."""
    return sorted(path.name for path in (cache / "python").iterdir())


def test_the_entries_unused_for_the_longest_go_first(cache: Path) -> None:
    prune(cache, MANY, 8, HOUR)
    assert left(cache) == [f"key{n}" for n in range(2, 10)]
    prune(cache, 3500, MANY, HOUR)
    assert left(cache) == ["key7", "key8", "key9"]
    assert sorted(path.stem for path in (cache / "locks").iterdir()) == left(cache)


def test_what_is_used_or_being_built_stays(cache: Path) -> None:
    cache_limit.used(cache / "python" / "key0")
    with FileLock(cache / "locks" / "key1.lock"):
        prune(cache, MANY, 1, HOUR)
    # key0 counts as the newest now; key1 was locked.
    assert left(cache) == ["key0", "key1"]


def test_folders_of_killed_builds_go_by_their_lock(cache: Path) -> None:
    for key in ("key3", "key4"):
        (cache / f"work-{key}-abc" / "entry").mkdir(parents=True)
    with FileLock(cache / "locks" / "key4.lock"):
        prune(cache, MANY, MANY, HOUR)
        assert [path.name for path in cache.glob("work-*")] == ["work-key4-abc"]
    prune(cache, MANY, MANY, HOUR)
    assert list(cache.glob("work-*")) == []


def test_what_a_solution_left_in_a_killed_room_goes_however_deep_it_is(cache: Path) -> None:
    here = cache / "work-token-1"
    here.mkdir()
    folder = os.open(here, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    try:
        prune(cache, MANY, MANY, HOUR)
        assert not here.exists()
    finally:
        remove(here)  # where it is still there pytest could not


def test_a_cache_that_is_built_into_is_pruned_and_rebuilt_entries_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_limit, "_EVERY", 1)
    monkeypatch.setattr(cache_limit, "MOST_ENTRIES", 3)
    monkeypatch.setattr(cache_limit, "SPARED_SECONDS", 0.0)
    spec = {
        "languages": ["pytorch"],
        "entry_point": "k.py::run",
        "destination_passing_style": False,
    }
    sandbox = find_sandbox()
    for number in (0, 1, 2, 3, 4, 0):
        source = {"path": "k.py", "content": f"def run(x):\n    return x * {number}\n"}
        solution = make_solution(
            {"name": "k", "definition": "d", "spec": spec, "sources": [source]}
        )
        built = build(solution, tmp_path, seconds=60, memory_bytes=1 << 30, sandbox=sandbox)
        assert built.entry.read_text() == source["content"]
        assert not built.cached
    assert len(left(tmp_path)) <= 3
