"""The strategy lenses, and which of them an operator class may use on a backend."""

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from kernelarc_guard.model import Model
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.errors import CampaignError

Backend = Literal["cpu", "cuda"]
Target = Literal["cpu", "cuda", "hopper", "blackwell"]
"""What a note is about: a backend, or one generation of GPUs."""
Depth = Literal["cheap", "medium", "deep"]
_DEPTHS: Final = ("cheap", "medium", "deep")
_TARGETS: Final[dict[Backend, tuple[Target, ...]]] = {
    "cpu": ("cpu",),
    "cuda": ("cuda", "hopper", "blackwell"),
}
_NAMES: Final[dict[Target, re.Pattern[str]]] = {
    "hopper": re.compile(r"\bG?H(?:100|200|800|20)\b"),
    "blackwell": re.compile(r"\bG?B(?:100|200|300)\b|RTX PRO .* Blackwell"),
}
"""A generation -> what its GPUs are called."""
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader in C where there is one: a server reads all lenses when it starts."""
_ELIGIBILITY: Final = "eligibility"
_OTHER: Final = "other"

Sentence = Annotated[str, Field(min_length=20, max_length=600)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=60)]


class Region(Model):
    """On which side of a border the lens pays, and on which it does not."""

    pays: Sentence
    fails: Sentence


class Move(Model):
    """One rung of a lens's ladder."""

    depth: Depth
    do: Sentence
    when: Sentence
    """What a profile, or the times of a verdict, must show before this is the next thing to do."""
    backend: Backend | None = None
    """The only backend it is for; None: every one."""


class Pattern(Model):
    """Short code, or a rule of thumb."""

    text: Sentence
    backend: Backend | None = None
    """The only backend it is for; None: every one."""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value


class Lens(Model):
    """One strategy: what to try, when it pays and when it is a trap."""

    name: str
    title: Annotated[str, Field(min_length=5, max_length=60)]
    intent: Sentence
    restrict: dict[Backend, list[Name]] = {}
    """Backend -> the only operator classes the lens is for; a backend not named: every class."""
    loose: dict[Backend, list[Name]] = {}
    """Backend -> operator classes it is only for where the tolerance is not `strict`."""
    roofline: Region
    """Which limit the kernel must be near."""
    shapes: Region
    pays_when: list[Sentence] = Field(min_length=3)
    trap_when: list[Sentence] = Field(min_length=3)
    moves: list[Move] = Field(min_length=5)
    """From cheap to deep."""
    patterns: list[Pattern] = Field(min_length=2)
    templates: list[Name] = Field(min_length=2, max_length=4)
    """Files of `strategies/templates` that show a pattern whole."""
    notes: dict[Target, list[Sentence]]
    """What the strategy means on a backend or a generation of GPUs."""

    @model_validator(mode="after")
    def _a_ladder(self) -> Self:
        depths = [_DEPTHS.index(move.depth) for move in self.moves]
        if depths != sorted(depths):
            raise ValueError("moves: expected cheap ones first, then medium, then deep")
        missing = [target for names in _TARGETS.values() for target in names]
        missing = [target for target in missing if not self.notes.get(target)]
        if missing:
            raise ValueError(f"notes: nothing about {missing[0]}")
        return self

    def moves_on(self, backend: Backend) -> list[Move]:
        """Return the ladder for a backend."""
        return [move for move in self.moves if move.backend in (None, backend)]

    def patterns_on(self, backend: Backend) -> list[str]:
        """Return the patterns for a backend."""
        return [one.text for one in self.patterns if one.backend in (None, backend)]

    def notes_on(self, backend: Backend, machine: str = "") -> list[str]:
        """Return the notes for a backend, each with what it is about.

        Where the name of the `machine` tells a GPU's generation, those of others are left out.
        """
        known = next((one for one, names in _NAMES.items() if names.search(machine)), None)
        targets = [one for one in _TARGETS[backend] if known in (None, one) or one not in _NAMES]
        return [f"{target}: {note}" for target in targets for note in self.notes[target]]


class Eligibility(Model):
    """Which lenses an operator class may use."""

    classes: dict[Name, Annotated[list[str], Field(min_length=1)]]
    """Operator class -> its lenses in the order in which they are handed out."""
    backends: dict[Backend, dict[Name, list[str]]] = {}
    """Backend -> operator class -> the same lenses in the order they have there."""
    aliases: dict[Name, Name]
    """Another name -> the class."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if _OTHER not in self.classes:
            raise ValueError(f"classes.{_OTHER}: missing; it serves the classes that are not named")
        for operator_class, lenses in self.classes.items():
            if len(set(lenses)) != len(lenses):
                raise ValueError(f"classes.{operator_class}: a lens occurs twice")
        for backend, orders in self.backends.items():
            for operator_class, lenses in orders.items():
                if sorted(lenses) != sorted(self.classes.get(operator_class, [])):
                    raise ValueError(
                        f"backends.{backend}.{operator_class}: expected the lenses of the class,"
                        " in another order"
                    )
        for alias, operator_class in self.aliases.items():
            if alias in self.classes or operator_class not in self.classes:
                raise ValueError(f"aliases.{alias}: expected another name of one of the classes")
        return self

    def class_of(self, name: str) -> str:
        """Return the class that an operator class's name stands for."""
        known = self.aliases.get(name, name)
        return known if known in self.classes else _OTHER


def backend_of(device: str) -> Backend:
    """Return the backend a device belongs to: cpu or cuda."""
    return "cpu" if device.startswith("cpu") else "cuda"


def lens_names() -> list[str]:
    """Return the names of all lenses."""
    paths = data_dir("strategies").glob("*.yaml")
    return sorted(path.stem for path in paths if path.stem != _ELIGIBILITY)


def read_lens(name: str) -> Lens:
    """Read one lens; CampaignError where there is none or its file is malformed."""
    return load_lens(data_dir("strategies"), name)


def eligible_lenses(operator_class: str, device: str, *, strict: bool = False) -> list[str]:
    """Return the lenses for an operator class on a device, in the order they are handed out.

    With `strict` those are left out that a strict tolerance leaves nothing to do.
    """
    folder = data_dir("strategies")
    table = load_eligibility(folder)
    known, backend = table.class_of(operator_class), backend_of(device)
    found = []
    for name in table.backends.get(backend, {}).get(known, table.classes[known]):
        lens = load_lens(folder, name)
        useless = strict and known in lens.loose.get(backend, [])
        if known in lens.restrict.get(backend, [known]) and not useless:
            found.append(name)
    return found


@lru_cache(maxsize=64)
def load_lens(folder: Path, name: str) -> Lens:
    """Read and check the lens `name` of a folder; CampaignError names file, field and fault."""
    path = folder / f"{name}.yaml"
    if Path(name).name != name or name == _ELIGIBILITY or not path.is_file():
        known = ", ".join(
            sorted(one.stem for one in folder.glob("*.yaml") if one.stem != _ELIGIBILITY)
        )
        raise CampaignError(f"there is no lens {name!r}; there are {known}")
    try:
        lens = Lens.model_validate(_read_yaml(path))
    except ValidationError as error:
        raise CampaignError(_told(path, error)) from error
    if lens.name != name:
        raise CampaignError(f"{path.name}: name: {lens.name!r}; expected the file's, {name!r}")
    return lens


@lru_cache(maxsize=8)
def load_eligibility(folder: Path) -> Eligibility:
    """Read and check a folder's eligibility map; CampaignError names class and fault."""
    path = folder / f"{_ELIGIBILITY}.yaml"
    try:
        table = Eligibility.model_validate(_read_yaml(path))
    except ValidationError as error:
        raise CampaignError(_told(path, error)) from error
    for operator_class, lenses in table.classes.items():
        for name in lenses:
            if not (folder / f"{name}.yaml").is_file():
                raise CampaignError(
                    f"{path.name}: classes.{operator_class}: there is no lens {name!r}"
                )
    return table


def _told(path: Path, error: ValidationError) -> str:
    first = error.errors()[0]
    where = _where(first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{path.name}: {where}: {message}" if where else f"{path.name}: {message}"


def _where(location: Iterable[int | str]) -> str:
    return ".".join(str(part) for part in location)


def _read_yaml(path: Path) -> dict[Any, Any]:
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CampaignError(f"{path.name}: cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise CampaignError(f"{path.name}: expected a mapping")
    return value
