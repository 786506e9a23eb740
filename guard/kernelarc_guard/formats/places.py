"""Where the files of a problem are: a folder of its own, or a FlashInfer-Trace set; light."""

from dataclasses import dataclass
from pathlib import Path

WORKLOADS = "workload.jsonl"


@dataclass(frozen=True)
class Place:
    """The files of one problem."""

    definition: Path
    workloads: Path
    folder: Path
    """Where files that workloads name are looked for."""
    expected: str
    """What should be there, for messages."""
    config: bool = False
    """Is there a configuration of another harness?"""


def place_of(path: Path, workloads: str = WORKLOADS) -> Place:
    """Return where a problem's files are; ValueError where `path` is no place of a problem.

    `path` is a problem folder, or the file of a definition inside a FlashInfer-Trace set.
    """
    if Path(workloads).name != workloads:
        raise ValueError(f"{workloads}: expected a file name inside the problem folder")
    root = set_root(path)
    if path.is_file() and path.suffix == ".json" and root is not None:
        return _in_set(path.absolute(), root, workloads)
    expected = f"a folder with definition.json and {WORKLOADS}"
    if not path.is_dir():
        raise ValueError(f"{path}: expected {expected}, or a definition of a FlashInfer-Trace set")
    if not (path / "definition.json").exists() and is_set(path):
        names = sorted(file.stem for file in definitions(path))
        some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise ValueError(
            f"{path}: is a FlashInfer-Trace set; name one of its {len(names)} definitions: "
            f"{path}:NAME ({some})"
        )
    return Place(
        definition=path / "definition.json",
        workloads=path / workloads,
        folder=path.resolve(),
        expected=expected,
        config=(path / "config.json").is_file(),
    )


def is_set(folder: Path) -> bool:
    """Say whether a folder is the root of a FlashInfer-Trace set."""
    return (folder / "definitions").is_dir()


def definitions(root: Path) -> list[Path]:
    """Return the definition files of a set."""
    return sorted((root / "definitions").rglob("*.json"))


def set_root(path: Path) -> Path | None:
    """Return the root of the set that a definition's file belongs to."""
    parents = path.absolute().parents
    return next((one.parent for one in parents if one.name == "definitions"), None)


def definition_file(root: Path, name: str) -> Path:
    """Return the file of a definition of a set; ValueError names similar ones where there is none."""
    files = definitions(root)
    found = [file for file in files if file.stem == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"{root}: {len(found)} definitions are called {name!r}")
    similar = [file.stem for file in files if name.split("_")[0] in file.stem] or [
        file.stem for file in files
    ]
    raise ValueError(
        f"{root}: no definition {name!r} among {len(files)}; there are {', '.join(similar[:5])}"
        + (", ..." if len(similar) > 5 else "")
    )


def _in_set(path: Path, root: Path, workloads: str) -> Place:
    own = [
        file for file in sorted((root / "workloads").rglob(f"{path.stem}.jsonl")) if file.is_file()
    ]
    if workloads != WORKLOADS:
        own = [path.parent / workloads, *((root / "workloads").rglob(workloads))]
        own = [file for file in own if file.is_file()]
        if not own:
            raise ValueError(f"{root / 'workloads'}: no file {workloads} in it")
    op = path.parent.relative_to(root / "definitions")
    return Place(
        definition=path,
        workloads=own[0] if own else root / "workloads" / op / f"{path.stem}.jsonl",
        folder=root.resolve(),
        expected="the workloads of the definition, one a line",
    )
