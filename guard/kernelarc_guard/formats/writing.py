"""Writing problems and solutions as files, without losing what was read; light."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from kernelarc_guard.definition import Definition
from kernelarc_guard.formats.blobs import find_file
from kernelarc_guard.formats.documents import (
    Document,
    Documents,
    dump_document,
    dump_lines,
)
from kernelarc_guard.problem import Problem
from kernelarc_guard.solution import Solution, read_solution, solution_file
from kernelarc_guard.textfile import parse_object, read_text


def documents_of(problem: Problem) -> Documents:
    """Return a problem that was not read from files as the documents that would be read as it."""
    return Documents(
        json.loads(problem.definition.model_dump_json(exclude_defaults=True)),
        [json.loads(one.model_dump_json(exclude_defaults=True)) for one in problem.workloads],
    )


def plain_workload(line: Document) -> Document:
    """Return the workload of a line that may be a trace."""
    inner = line.get("workload")
    return inner if isinstance(inner, dict) and "uuid" not in line else line


def write_folder(
    folder: Path, documents: Documents, origin: Path | None = None, file: str = "workload.jsonl"
) -> None:
    """Write a problem folder in SOL-ExecBench form, with the files that its workloads name.

    Those are looked for below `origin`, as `find_file` does, and stand at their own paths below
    `folder`; ValueError where one is missing. A folder that exists is written into.
    """
    workloads = [plain_workload(line) for line in documents.workloads]
    found = blobs(workloads, origin) if origin is not None else {}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "definition.json").write_text(dump_document(documents.definition), encoding="utf-8")
    (folder / file).write_text(dump_lines(workloads), encoding="utf-8")
    copy_blobs(found, folder)


def blobs(workloads: Iterable[Document], origin: Path) -> dict[str, Path]:
    """Return the files that workloads name, by the path they name them with; ValueError if missing."""
    found: dict[str, Path] = {}
    for workload in workloads:
        for spec in (workload.get("inputs") or {}).values():
            path = spec.get("path") if isinstance(spec, dict) else None
            if isinstance(path, str) and path not in found:
                found[path] = find_file(origin, path)
    return found


def copy_blobs(found: dict[str, Path], folder: Path) -> None:
    """Copy files to the paths that workloads name, below `folder`."""
    for path, source in found.items():
        target = folder / path.lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def solution_document(solution: Solution) -> Document:
    """Return a solution as a document of SOL-ExecBench's form; `author` is never empty there."""
    value: Document = json.loads(solution.model_dump_json(exclude_none=True))
    value["author"] = value["author"] or "unknown"
    return value


def read_solution_document(path: Path, definition: Definition, warnings: list[str]) -> Document:
    """Return a solution as it stands in its file, with every source's content in it.

    SolutionError where it cannot be read. A bare source file becomes a document of its own.
    """
    solution = read_solution(path, definition, warnings)
    file = solution_file(path)
    if file.suffix != ".json":
        return solution_document(solution)
    document = parse_object(read_text(file), file.name)
    contents = {source.path: source.content for source in solution.sources}
    document["sources"] = [
        {**source, "content": contents[source["path"]]} for source in document["sources"]
    ]
    return document


def flashinfer_solution(document: Document) -> Document:
    """Return a solution's document in FlashInfer-Bench's form, which has one language and no flags.

    ValueError where compile options would be lost.
    """
    spec = dict(document["spec"])
    options = spec.pop("compile_options", None)
    if options and any(options.values()):
        raise ValueError("spec.compile_options: FlashInfer-Bench has none; they would be lost")
    languages = spec.pop("languages", None)
    if languages:
        spec["language"] = _FLASHINFER.get(languages[0], languages[0])
    spec["target_hardware"] = spec.get("target_hardware") or ["LOCAL"]
    return {**document, "spec": spec}


_FLASHINFER = {
    "pytorch": "python",
    "numpy": "python",
    "cute_dsl": "python",
    "cutile": "python",
    "cudnn_frontend": "python",
    "cuda_cpp": "cuda",
    "cutlass": "cuda",
    "cudnn": "cuda",
    "cublas": "cuda",
}
