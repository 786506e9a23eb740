"""FlashInfer-Trace sets: definitions, workloads, blobs, solutions and traces in one folder; light.

    definitions/<op_type>/<name>.json              workloads/<op_type>/<name>.jsonl
    solutions/<author>/<op_type>/<name>/*.json     traces/<author>/<op_type>/<name>.jsonl
    blob/workloads/...

Only file names are looked at until something is asked for.
"""

from dataclasses import dataclass
from pathlib import Path

from kernelarc_guard.formats.documents import (
    Document,
    Documents,
    dump_document,
    dump_lines,
)
from kernelarc_guard.formats.links import refuse_links_out
from kernelarc_guard.formats.places import definition_file, definitions, is_set
from kernelarc_guard.formats.traces import Trace, read_traces
from kernelarc_guard.formats.writing import blobs, copy_blobs, plain_workload
from kernelarc_guard.problem import Problem, ProblemError, read_documents, read_problem
from kernelarc_guard.solution import Solution, read_solution

_OTHER = "other"
"""The folder of definitions without an op_type."""


@dataclass(frozen=True)
class TraceSet:
    """A set on disk."""

    root: Path

    def __post_init__(self) -> None:
        if not is_set(self.root):
            raise ProblemError(
                f"{self.root}: expected a FlashInfer-Trace set, with a folder definitions/"
            )

    def names(self) -> list[str]:
        """Return the names of all definitions."""
        return [file.stem for file in definitions(self.root)]

    def file(self, name: str) -> Path:
        """Return the file of a definition, which `read_problem` reads; ProblemError if none."""
        try:
            return definition_file(self.root, name)
        except ValueError as error:
            raise ProblemError(str(error)) from None

    def problem(self, name: str) -> Problem:
        """Return a definition with its workloads."""
        return read_problem(self.file(name))

    def documents(self, name: str) -> Documents:
        """Return the same as it stands in its files."""
        return read_documents(self.file(name))

    def solution_files(self, name: str) -> list[Path]:
        """Return the files of a definition's solutions; ProblemError for a link that leads out."""
        found = sorted((self.root / "solutions").rglob("*.json"))
        return self._own([file for file in found if file.parent.name == name])

    def solutions(self, name: str, warnings: list[str]) -> list[Solution]:
        """Return a definition's solutions; SolutionError names the file that is none."""
        definition = self.problem(name).definition
        return [read_solution(file, definition, warnings) for file in self.solution_files(name)]

    def baseline(self, name: str) -> Path | None:
        """Return the solution of the author `baseline`, the set's own; None without one."""
        own = self.root / "solutions" / "baseline"
        return next((one for one in self.solution_files(name) if one.is_relative_to(own)), None)

    def traces(self, name: str, warnings: list[str]) -> list[Trace]:
        """Return all results on a definition; ValueError names file, line and field."""
        files = self._own(sorted((self.root / "traces").rglob(f"{name}.jsonl")))
        return [trace for file in files for trace in read_traces(file, warnings)]

    def _own(self, files: list[Path]) -> list[Path]:
        try:
            for file in files:
                refuse_links_out(file, self.root)
        except ValueError as error:
            raise ProblemError(str(error)) from None
        return files

    def add_problem(self, documents: Documents, origin: Path | None = None) -> Path:
        """Write a definition, its workloads and their blobs; returns the definition's file.

        ValueError where the definition uses what such sets do not have.
        """
        refuse_unknown(documents)
        name, op = _name(documents.definition["name"], "name"), op_type(documents.definition)
        workloads = [plain_workload(line) for line in documents.workloads]
        found = blobs(workloads, origin) if origin is not None else {}
        file = self.root / "definitions" / op / f"{name}.json"
        _write(file, dump_document({**documents.definition, "op_type": op}))
        lines = [
            {"definition": name, "workload": one, "solution": None, "evaluation": None}
            for one in workloads
        ]
        _write(self.root / "workloads" / op / f"{name}.jsonl", dump_lines(lines))
        copy_blobs(found, self.root)
        return file

    def add_solution(self, document: Document, op: str) -> Path:
        """Write a solution's document (see `flashinfer_solution`); returns its file."""
        author = _name(document.get("author") or "unknown", "author")
        folder = self.root / "solutions" / author / op / _name(document["definition"], "definition")
        file = folder / f"{_name(document['name'], 'name')}.json"
        _write(file, dump_document(document))
        return file


def create_set(root: Path) -> TraceSet:
    """Return the set in a folder, which is made where there is none."""
    (root / "definitions").mkdir(parents=True, exist_ok=True)
    return TraceSet(root)


def op_type(definition: Document) -> str:
    """Return the folder that a definition belongs in."""
    return _name(definition.get("op_type") or definition.get("type") or _OTHER, "op_type")


def refuse_unknown(documents: Documents) -> None:
    """Raise ValueError where a problem uses what FlashInfer-Trace does not have."""
    definition = documents.definition
    for name, axis in definition["axes"].items():
        if axis.get("type") == "expr":
            raise ValueError(f"axes.{name}: FlashInfer-Trace has no expr axes")
    for side in ("inputs", "outputs"):
        for name, spec in definition[side].items():
            digits = [one for one in spec["shape"] or [] if one not in definition["axes"]]
            if digits:
                raise ValueError(
                    f"{side}.{name}.shape: FlashInfer-Trace has only axes, not {digits[0]!r}"
                )
    if definition.get("custom_inputs_entrypoint"):
        raise ValueError("custom_inputs_entrypoint: FlashInfer-Trace has no custom inputs")


def not_used(documents: Documents) -> list[str]:
    """Return what such a set holds for us and its own tools do not look at, one line each."""
    told = [one for one in map(plain_workload, documents.workloads) if one.get("tolerance")]
    if not told:
        return []
    kept = "1 workload" if len(told) == 1 else f"{len(told)} workloads"
    return [f"tolerance: of {kept} kept; FlashInfer-Bench does not look at it"]


def _name(value: object, field: str) -> str:
    """Return a name that can be a file's; ValueError for others."""
    text = str(value)
    if text in ("", ".", "..") or any(not one.isprintable() or one in "/\\" for one in text):
        raise ValueError(f"{field}: {text!r} cannot be the name of a file")
    return text


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
