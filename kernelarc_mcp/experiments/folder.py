"""An experiment's directory: its runs in the order of time, and what is kept of each."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from kernelarc_mcp.experiments.file import Arm, Experiment, ExperimentError

PLAN: Final = "experiment.json"
BUILDS: Final = "builds"
CAMPAIGN: Final = "campaign"
OUTCOME: Final = "outcome.json"
_RUNS: Final = "runs"
_LOCK: Final = "experiment.lock"
_MAY_CHANGE: Final = frozenset({"runs", "seeds", "idle_seconds"})


@dataclass(frozen=True)
class Run:
    """One campaign of an arm."""

    arm: Arm
    number: int
    """Counts from 1."""
    seed: int
    folder: Path

    @property
    def campaign(self) -> Path:
        """Return where its campaign is, or will be."""
        return self.folder / CAMPAIGN

    @property
    def outcome(self) -> Path:
        """Return where its outcome is kept, once it is finished."""
        return self.folder / OUTCOME


def runs_of(experiment: Experiment, target: Path) -> Iterator[Run]:
    """Yield all runs in the order of time: the first of every arm, then the second, and so on.

    Each round begins with another arm, so that none always has the machine first.
    """
    arms = experiment.arms
    for number in range(1, experiment.runs + 1):
        turn = (number - 1) % len(arms)
        for arm in [*arms[turn:], *arms[:turn]]:
            folder = target / _RUNS / f"{arm.name}-{number}"
            yield Run(arm, number, experiment.seed_of(number), folder)


@contextmanager
def begun(target: Path, experiment: Experiment) -> Iterator[None]:
    """Hold an experiment's directory, which is made or was begun with this very experiment.

    More runs may have been asked for since. ExperimentError where another process holds it, or another
    experiment was begun in it.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        lock = FileLock(target / _LOCK)
        lock.acquire(blocking=False)
    except Timeout:
        raise ExperimentError(f"{target}: another process runs this experiment") from None
    except OSError as error:
        raise ExperimentError(f"{target}: cannot be written: {error.strerror}") from None
    try:
        _same(target / PLAN, experiment)
        (target / BUILDS).mkdir(exist_ok=True)
        yield
    finally:
        lock.release()


def check_same(target: Path, experiment: Experiment) -> None:
    """Raise ExperimentError where nothing, or another experiment, was begun in the directory."""
    if not (target / PLAN).is_file():
        raise ExperimentError(f"{target}: no run was begun here")
    _changed(target / PLAN, experiment)


def _same(path: Path, experiment: Experiment) -> None:
    if path.exists():
        _changed(path, experiment)
    elif any(one.name != _LOCK for one in path.parent.iterdir()):
        raise ExperimentError(f"{path.parent}: not empty, and no experiment's directory")
    write_whole(path, experiment.model_dump_json(indent=1) + "\n")


def _changed(path: Path, experiment: Experiment) -> None:
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{path}: cannot be read: {error}") from None
    now = experiment.model_dump(mode="json")
    changed = sorted(
        field for field in now if field not in _MAY_CHANGE and before.get(field) != now[field]
    )
    if changed:
        raise ExperimentError(
            f"{path.parent}: was begun with other {', '.join(changed)}; expected the same,"
            " or another directory"
        )
    earlier = [before["seeds"][n] if before["seeds"] else n + 1 for n in range(before["runs"])]
    kept = min(before["runs"], experiment.runs)
    if earlier[:kept] != [experiment.seed_of(n) for n in range(1, kept + 1)]:
        raise ExperimentError(f"{path.parent}: was begun with seeds {earlier}; expected them first")


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, whenever this process is killed."""
    making = path.with_name(f".{path.name}.new")
    making.write_text(text, encoding="utf-8")
    os.replace(making, path)
