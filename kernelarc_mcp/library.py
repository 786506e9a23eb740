"""The problems that come with the project: what is known of each, and its solutions."""

from pathlib import Path
from typing import Final, Literal

import yaml
from pydantic import ValidationError

from kernelarc_guard.definition import Definition
from kernelarc_guard.formats.needs import needs_gpu
from kernelarc_guard.model import Model
from kernelarc_guard.solution import NATIVE_SUFFIXES, Solution, read_solution
from kernelarc_guard.textfile import first_error

Progress = Literal["judged", "compiled", "untried"]
"""How far a problem's own solutions have come on a kind of device, as ``library.yaml`` says."""

_FILE: Final = "library.yaml"


class LibraryError(ValueError):
    """A library's file that cannot be used; one line."""


class Known(Model):
    """What is known of one problem."""

    cpu: Progress
    gpu: Progress
    memory: dict[str, int]
    """Workload file for GPUs -> GiB of a GPU's memory that judging it takes."""
    native: str = ""
    """What only some devices have, and from which on."""

    @property
    def needs(self) -> str:
        """Return in a few words what devices can judge it."""
        files = sorted(self.memory.items(), key=lambda item: item[1])
        gpu = ", ".join(
            f"{gib} GiB" + ("" if name == "workload.gpu.jsonl" else f" ({name})")
            for name, gib in files
        )
        return f"a CPU, or a GPU with {gpu}" + (f"; {self.native}" if self.native else "")

    @property
    def state(self) -> str:
        """Return in a few words what has been seen."""
        return f"CPU {self.cpu}, GPU {self.gpu}"


class _Library(Model):
    problems: dict[str, Known]


def known_problems(root: Path) -> dict[str, Known]:
    """Return what a folder of problems says of them, by name; nothing without its file.

    Raises LibraryError.
    """
    path = root / _FILE
    if not path.is_file():
        return {}
    try:
        return _Library.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).problems
    except ValidationError as error:
        raise LibraryError(f"{_FILE}: {first_error(error)[1]}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise LibraryError(f"{_FILE}: is no YAML: {said}") from None


def solutions_of(folder: Path, definition: Definition) -> dict[str, Solution]:
    """Return every solution in a problem's folder by file name, seeds first.

    A source file that a ``.json`` beside it names is that one's. Raises SolutionError.
    """
    place = folder / "solutions"
    files = sorted(place.iterdir()) if place.is_dir() else []
    found = {path.name: read_solution(path, definition) for path in files if path.suffix == ".json"}
    taken = {source.path for solution in found.values() for source in solution.sources}
    for path in files:
        if path.suffix in (".py", *NATIVE_SUFFIXES) and path.name not in taken:
            found[path.name] = read_solution(path, definition)
    return found


def runs_on(solution: Solution, device: str) -> bool:
    """Say whether a solution is meant for a device: C++ for the CPU, CUDA and Triton for GPUs."""
    if solution.is_native:
        return ("cpp" in solution.spec.languages) == (device == "cpu")
    return device != "cpu" or not any(needs_gpu(source.content) for source in solution.sources)
