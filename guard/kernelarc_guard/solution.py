"""Solutions and their readers: solution.json, a folder with one, or a bare source file; light."""

import logging
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from kernelarc_guard import pyast
from kernelarc_guard.definition import Definition
from kernelarc_guard.formats.links import refuse_links_out
from kernelarc_guard.solution_model import (
    NATIVE_LANGUAGES,
    NATIVE_SUFFIXES,
    PYTHON_LANGUAGES,
    Binding,
    CompileOptions,
    Solution,
    SolutionError,
    SourceFile,
    Spec,
    reference_solution,
)
from kernelarc_guard.sourcefile import read_source
from kernelarc_guard.textfile import (
    first_error,
    known_only,
    parse_object,
    shown,
)

__all__ = [
    "NATIVE_LANGUAGES",
    "NATIVE_SUFFIXES",
    "PYTHON_LANGUAGES",
    "Binding",
    "CompileOptions",
    "Solution",
    "SolutionError",
    "SourceFile",
    "Spec",
    "make_solution",
    "read_solution",
    "reference_solution",
    "seed_solution",
    "solution_file",
]

_log = logging.getLogger(__name__)
_SOL_LANGUAGES = frozenset({"cuda_cpp", "cutlass", "cudnn", "cublas"})
"""Native languages that only SOL-ExecBench has, which builds them as extensions of torch."""
_GPU_LANGUAGES = _SOL_LANGUAGES | {"cuda"}


def make_solution(fields: dict[str, Any], where: str = "") -> Solution:
    """Build a solution from plain values; SolutionError carries the envelope's reason code."""
    try:
        solution = Solution.model_validate(fields)
        # It has to reach the guard, and the ledger, as JSON.
        solution.model_dump_json()
        return solution
    except PydanticSerializationError:
        raise SolutionError(
            f"{where}expected UTF-8 text: some field has half of a character"
        ) from None
    except ValidationError as error:
        code, message = first_error(error)
        reason = code if code.startswith("envelope_") else "envelope_bad_text"
        raise SolutionError(f"{where}{message}", reason) from None


def read_solution(
    path: Path, definition: Definition, warnings: list[str] | None = None
) -> Solution:
    """Read a solution of `definition`; SolutionError says in one line what is wrong.

    `path` is a solution.json, a folder with one (or with a single source file), or a bare source
    file whose entry is `run`. Ignored keys are named in `warnings`, or logged without it.
    """
    met: list[str] = []
    try:
        solution = _read(solution_file(path), definition, met)
    except SolutionError:
        raise
    except ValueError as error:
        raise SolutionError(str(error)) from None
    except OSError as error:
        raise SolutionError(f"{path.name}: cannot be read: {error.strerror}") from None
    if warnings is not None:
        warnings.extend(met)
    else:
        for line in met:
            _log.warning(line)
    if solution.definition != definition.name:
        raise SolutionError(
            f"{path.name}: definition: {solution.definition!r}; expected {definition.name!r}"
        )
    return solution


def seed_solution(folder: Path, definition: Definition, device: str = "cpu") -> Solution | None:
    """Return a problem folder's own starting point on a device; None without one.

    That is ``solutions/seed.json``; on a GPU ``solutions/seed.gpu.json`` before it, and no C++ for a
    CPU.
    """
    on_gpu = device != "cpu"
    for name in ("seed.gpu.json", "seed.json") if on_gpu else ("seed.json",):
        path = folder / "solutions" / name
        if path.is_file():
            try:
                refuse_links_out(path, folder)
            except ValueError as error:
                raise SolutionError(str(error)) from None
            seed = read_solution(path, definition)
            return None if on_gpu and "cpp" in seed.spec.languages else seed
    return None


def solution_file(path: Path) -> Path:
    """Return the file that `read_solution` reads; SolutionError for a folder without a clear one."""
    if not path.is_dir():
        return path
    if (path / "solution.json").is_file():
        return path / "solution.json"
    files = sorted(child for child in path.iterdir() if child.is_file())
    for kind in ((".json",), (".py", *NATIVE_SUFFIXES)):
        fitting = [child for child in files if child.suffix in kind]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            break
    raise SolutionError(f"{path.name}: expected a folder with one solution.json")


def _read(path: Path, definition: Definition, warnings: list[str]) -> Solution:
    text = read_source(path, warnings)
    if path.suffix == ".json":
        return _from_json(path, parse_object(text, path.name), warnings)
    if path.suffix == ".py":
        return _bare_python(path, text, definition)
    if path.suffix in NATIVE_SUFFIXES:
        return _bare_native(path, text, definition)
    allowed = ", ".join((".json", ".py", *NATIVE_SUFFIXES))
    raise SolutionError(f"{path.name}: expected one of {allowed}", "envelope_bad_language")


def _from_json(path: Path, raw: dict[str, Any], warnings: list[str]) -> Solution:
    where = f"{path.name}: "
    known = known_only(raw, Solution, where, warnings)
    if known.get("author", "") is None:
        del known["author"]
    spec = known.get("spec")
    if isinstance(spec, dict):
        known["spec"] = _spec(spec, where, warnings)
    sources = known.get("sources")
    if isinstance(sources, list):
        known["sources"] = [
            _source(
                known_only(source, SourceFile, f"{where}sources[{i}].", warnings),
                path.parent,
                warnings,
            )
            for i, source in enumerate(sources)
        ]
    return make_solution(known, where)


def _spec(raw: dict[str, Any], where: str, warnings: list[str]) -> dict[str, Any]:
    spec = dict(raw)
    if "languages" not in spec and isinstance(spec.get("language"), str):
        # FlashInfer-Bench has one language, and other bindings where it says nothing.
        spec["languages"] = [spec.pop("language")]
    known: dict[str, Any] = known_only(spec, Spec, f"{where}spec.", warnings)
    # Both benchmarks write what is not there as null.
    known = {key: value for key, value in known.items() if value is not None}
    languages = known.get("languages")
    named = frozenset(map(str, languages)) if isinstance(languages, list) else frozenset()
    if "binding" in known and named and named <= PYTHON_LANGUAGES:
        warnings.append(f"{where}spec.binding: {known.pop('binding')!r} ignored: not for Python")
    elif named & _SOL_LANGUAGES:
        known.setdefault("binding", "torch")
    options = known.get("compile_options")
    if isinstance(options, dict):
        options = known_only(options, CompileOptions, f"{where}spec.compile_options.", warnings)
        options = {key: value for key, value in options.items() if value is not None}
        if named & _GPU_LANGUAGES:
            # What SOL-ExecBench passes once the object is there at all.
            defaults = {"cuda_cflags": ["-O3", "--use_fast_math"], "ld_flags": ["-lcuda"]}
            options = defaults | options
        known["compile_options"] = options
    return known


def _source(raw: Any, folder: Path, warnings: list[str]) -> Any:
    """Fill an empty or absent content from the file beside the JSON."""
    if not isinstance(raw, dict) or raw.get("content") or not isinstance(raw.get("path"), str):
        return raw
    relative = PurePosixPath(raw["path"])
    try:
        beside = (folder / relative).resolve()
        inside = not relative.is_absolute() and beside.is_relative_to(folder.resolve())
        there = inside and beside.is_file()
    except (OSError, RuntimeError, ValueError):
        # A loop of links, a name that is too long, a NUL: no file can be meant.
        raise SolutionError(
            f"sources: {shown(raw['path'])} is no path of a file", "envelope_bad_path"
        ) from None
    if not inside:
        raise SolutionError(f"sources: {shown(raw['path'])} leaves the folder", "envelope_bad_path")
    if not there:
        if "content" in raw:
            return raw
        raise SolutionError(f"sources: {shown(raw['path'])} has no content, and is no file beside")
    return raw | {"content": read_source(beside, warnings)}


def _bare_python(path: Path, text: str, definition: Definition) -> Solution:
    try:
        run = pyast.functions(pyast.parse(text)).get("run")
    except ValueError:
        # The policy stage reports syntax with a verdict; here it only decides the call.
        run = None
    arguments = len(definition.inputs) + len(definition.outputs)
    destination = run is not None and pyast.takes_exactly(run, arguments)
    spec = {"languages": ["python"], "destination_passing_style": destination}
    return _bare(path, text, definition, spec)


def _bare_native(path: Path, text: str, definition: Definition) -> Solution:
    languages = ["cuda"] if path.suffix == ".cu" else ["cpp"]
    binding = "tvm-ffi" if "<tvm/ffi/" in text else "dlpack"
    return _bare(path, text, definition, {"languages": languages, "binding": binding})


def _bare(path: Path, text: str, definition: Definition, spec: dict[str, Any]) -> Solution:
    fields = {
        "name": path.stem,
        "definition": definition.name,
        "spec": spec | {"entry_point": f"{path.name}::run"},
        "sources": [{"path": path.name, "content": text}],
    }
    return make_solution(fields, f"{path.name}: ")
