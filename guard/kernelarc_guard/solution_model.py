"""A solution: sources and how to call them; light. Import it from kernelarc_guard.solution."""

import hashlib
import json
import re
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from kernelarc_guard import pyast
from kernelarc_guard.definition import Definition
from kernelarc_guard.model import Model

PYTHON_LANGUAGES: Final = frozenset(
    {
        "python",
        "pytorch",
        "numpy",
        "triton",
        "cupy",
        "numba",
        "tilelang",
        "helion",
        "cute_dsl",
        "cutile",
        "cudnn_frontend",
    }
)
NATIVE_LANGUAGES: Final = frozenset({"cpp", "cuda", "cuda_cpp", "cutlass", "cudnn", "cublas"})
NATIVE_SUFFIXES: Final = (".cpp", ".cc", ".cxx", ".c", ".cu")
_HEADER_SUFFIXES: Final = (".h", ".hpp", ".cuh")
Binding = Literal["tvm-ffi", "dlpack", "torch"]


class SolutionError(ValueError):
    """A solution that cannot be used; one line, and the reason code an envelope check reports."""

    def __init__(self, message: str, reason: str = "envelope_bad_text") -> None:
        """Keep the reason code beside the message."""
        super().__init__(message)
        self.reason = reason


class SourceFile(Model):
    """One file of a solution."""

    path: str = Field(min_length=1, max_length=200)
    content: str

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        pure = PurePosixPath(path)
        plain = re.fullmatch(r"[\w./+ -]+", path, re.ASCII) is not None
        if not plain or pure.is_absolute() or ".." in pure.parts or str(pure) != path:
            raise PydanticCustomError(
                "envelope_bad_path",
                "{path} is not a plain relative path inside the folder",
                {"path": repr(path)},
            )
        return path

    @field_validator("content")
    @classmethod
    def _is_text(cls, content: str) -> str:
        if "\x00" in content or any("\ud800" <= char <= "\udfff" for char in content):
            raise PydanticCustomError("envelope_bad_text", "expected UTF-8 text")
        return content


class CompileOptions(Model):
    """Extra flags of the compilers and the linker."""

    cflags: list[str] = []
    cuda_cflags: list[str] = []
    ld_flags: list[str] = []


class Spec(Model):
    """How the sources are built and called."""

    languages: list[str] = Field(min_length=1)
    entry_point: str
    """`file::function`."""
    destination_passing_style: bool = True
    """Called with inputs, then outputs to fill; else it returns its outputs."""
    binding: Binding | None = None
    """Of native code; None is `tvm-ffi`."""
    dependencies: list[str] = []
    target_hardware: list[str] = []
    compile_options: CompileOptions | None = None

    @field_validator("languages")
    @classmethod
    def _one_family(cls, languages: list[str]) -> list[str]:
        for language in languages:
            if language not in PYTHON_LANGUAGES | NATIVE_LANGUAGES:
                known = ", ".join(sorted(PYTHON_LANGUAGES | NATIVE_LANGUAGES))
                raise PydanticCustomError(
                    "envelope_bad_language",
                    "{language} is not one of {known}",
                    {"language": repr(language), "known": known},
                )
        if len({language in NATIVE_LANGUAGES for language in languages}) > 1:
            raise PydanticCustomError(
                "envelope_bad_language", "expected Python languages or native ones, not both"
            )
        return languages

    @field_validator("entry_point")
    @classmethod
    def _file_and_function(cls, entry: str) -> str:
        file, separator, function = entry.partition("::")
        if not (file and separator and function.isidentifier()):
            raise PydanticCustomError(
                "envelope_bad_entry",
                "{entry} is not of the form file::function",
                {"entry": repr(entry)},
            )
        return entry


class Solution(Model):
    """A candidate implementation of a definition."""

    name: str = Field(min_length=1, max_length=200)
    definition: str
    author: str = ""
    description: str = ""
    spec: Spec
    sources: list[SourceFile] = Field(min_length=1)

    @field_validator("description", mode="before")
    @classmethod
    def _no_null(cls, value: object) -> object:
        return "" if value is None else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        paths: dict[str, None] = {}
        for source in self.sources:
            if source.path in paths:
                raise PydanticCustomError(
                    "envelope_bad_path", "sources: {path} occurs twice", {"path": repr(source.path)}
                )
            paths[source.path] = None
        if self.entry_file not in paths:
            raise PydanticCustomError(
                "envelope_bad_entry",
                "spec.entry_point: {file} is no source; expected one of {paths}",
                {"file": repr(self.entry_file), "paths": ", ".join(paths)},
            )
        suffix = PurePosixPath(self.entry_file).suffix
        allowed = NATIVE_SUFFIXES + _HEADER_SUFFIXES if self.is_native else (".py",)
        if suffix not in allowed:
            raise PydanticCustomError(
                "envelope_bad_entry",
                "spec.entry_point: {file} does not fit the languages; expected {allowed}",
                {"file": repr(self.entry_file), "allowed": ", ".join(allowed)},
            )
        if not self.is_native and self.spec.binding is not None:
            raise PydanticCustomError(
                "envelope_bad_language", "spec.binding: expected none for Python sources"
            )
        return self

    @property
    def entry_file(self) -> str:
        """Return the file the entry point is in."""
        return self.spec.entry_point.partition("::")[0]

    @property
    def entry_function(self) -> str:
        """Return the function that is called."""
        return self.spec.entry_point.partition("::")[2]

    @property
    def is_native(self) -> bool:
        """Say whether it has to be compiled before it can be loaded."""
        return self.spec.languages[0] in NATIVE_LANGUAGES

    @property
    def may_use_triton(self) -> bool:
        """Say whether Triton may compile kernels of it when it runs: many are handed in as plain Python."""
        return not self.is_native and (
            "triton" in self.spec.languages or any("triton" in one.content for one in self.sources)
        )

    @property
    def binding(self) -> Binding | None:
        """Return the binding of native code with its default filled in; None for Python."""
        return (self.spec.binding or "tvm-ffi") if self.is_native else None

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256, in hex, of all that decides what runs: the spec and the sources."""
        spec = self.spec.model_dump(mode="json", exclude={"target_hardware"})
        sources = sorted((source.path, source.content) for source in self.sources)
        text = json.dumps([spec, sources], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def reference_solution(definition: Definition) -> Solution:
    """Return the definition's reference as a Python, value-returning solution.

    A reference that writes to its inputs would be refused as a solution: it is called with copies.
    """
    sources = [SourceFile(path="reference.py", content=definition.reference)]
    entry = "reference.py::run"
    mutable = definition.kernelarc.mutable_inputs
    run = pyast.functions(pyast.parse(definition.reference))["run"]
    names = pyast.positional(run)
    written = pyast.written_parameters(run)
    passed = [
        f"{name}.clone()"
        if name in written and spec.shape is not None and given not in mutable
        else name
        for name, (given, spec) in zip(names, definition.inputs.items(), strict=True)
    ]
    if passed != names:
        text = (
            f"from reference import run as _run\n\n\ndef run({', '.join(names)}):\n"
            f"    return _run({', '.join(passed)})\n"
        )
        sources.append(SourceFile(path="on_copies.py", content=text))
        entry = "on_copies.py::run"
    return Solution(
        name="reference",
        definition=definition.name,
        author="reference",
        spec=Spec(languages=["pytorch"], entry_point=entry, destination_passing_style=False),
        sources=sources,
    )
