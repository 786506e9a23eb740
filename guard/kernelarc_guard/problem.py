"""A problem: a definition with its workloads, and the reader of problem folders; light.

The folder is read in SOL-ExecBench form; workload lines of FlashInfer-Trace are read too, and single
definitions of its sets (see `formats.flashinfer`).
"""

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from pydantic import Field, ValidationError, model_validator

from kernelarc_guard.axes import Axis
from kernelarc_guard.definition import DTYPES, Definition, KernelArcKeys, TensorSpec
from kernelarc_guard.formats.documents import (
    Documents,
    parse_definition,
    parse_lines,
    parse_workloads,
)
from kernelarc_guard.formats.links import refuse_links_out
from kernelarc_guard.formats.places import Place, place_of
from kernelarc_guard.formats.selection import select
from kernelarc_guard.model import Model
from kernelarc_guard.textfile import first_error, parse_object, read_text
from kernelarc_guard.workload import InputSpec, Tolerance, Workload, check_workload

__all__ = [
    "DTYPES",
    "Axis",
    "Definition",
    "InputSpec",
    "KernelArcKeys",
    "Problem",
    "ProblemError",
    "TensorSpec",
    "Tolerance",
    "Workload",
    "read_documents",
    "read_problem",
]


MAX_WORKLOADS: Final = 190
"""More descriptors than one message to a runner may carry would be needed for more.

Of a longer file a selection is judged: `formats.selection`.
"""
_REPEATED: Final = 3
"""A warning about more lines than this is given once."""


class ProblemError(ValueError):
    """A problem folder that cannot be used; the message is one line: file, field, expectation."""


class Problem(Model):
    """One operator to optimise, with the shapes it is measured on."""

    definition: Definition
    workloads: list[Workload] = Field(min_length=1, max_length=MAX_WORKLOADS)
    warnings: list[str] = []
    """What the reader met and ignored, one line each."""
    folder: str | None = None
    """Where it was read from; files that workloads name are looked for there."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        seen: set[str] = set()
        for workload in self.workloads:
            if workload.uuid in seen:
                raise ValueError(f"workload {workload.uuid}: uuid occurs twice")
            seen.add(workload.uuid)
            try:
                check_workload(self.definition, workload)
            except ValueError as error:
                raise ValueError(f"workload {workload.uuid}: {error}") from None
        if sum(self._raw_weights()) <= 0:
            raise ValueError("kernelarc.weights: expected a weight above 0 for some workload")
        return self

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256, in hex, of what is judged: definition and workloads."""
        definition = self.definition
        dumped = definition.model_dump(mode="json")
        if definition.kernelarc.compared_as is None:
            del dumped["kernelarc"]["compared_as"]  # problems from before it keep their digest
        for spec in (*dumped["inputs"].values(), *dumped["outputs"].values()):
            if not spec["optional"]:
                del spec["optional"]  # as above
        content = {
            "definition": dumped,
            # Sorting the keys loses the order of the call, so it is spelt out.
            "order": [list(definition.inputs), list(definition.outputs)],
            "workloads": [workload.model_dump(mode="json") for workload in self.workloads],
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _raw_weights(self) -> list[float]:
        weights = self.definition.kernelarc.weights
        if weights is None:
            return [1.0] * len(self.workloads)
        return [weights.get(workload.uuid, 0.0) for workload in self.workloads]

    def weights(self) -> list[float]:
        """Return each workload's share in the mean, in order; they sum to 1.

        A workload that `kernelarc.weights` does not name has weight 0: checked, not counted.
        """
        raw = self._raw_weights()
        total = sum(raw)
        return [weight / total for weight in raw]


def read_problem(path: Path, workloads: str = "workload.jsonl") -> Problem:
    """Read a problem folder, or one definition of a FlashInfer-Trace set by its file.

    ProblemError says in one line which file and field is wrong. A file with more than MAX_WORKLOADS
    workloads is read and checked whole; which of them are judged is said in the warnings.
    """
    return _read(path, workloads)[0]


def read_documents(path: Path, workloads: str = "workload.jsonl") -> Documents:
    """Return a problem that can be read as it stands in its files, unknown keys included."""
    return _read(path, workloads)[1]


def _read(path: Path, workloads: str) -> tuple[Problem, Documents]:
    warnings: list[str] = []
    try:
        place = place_of(path, workloads)
        name = place.definition.name
        raw = parse_object(_text_of(place, place.definition), name)
        definition = parse_definition(raw, name, warnings)
        name = place.workloads.name
        lines = parse_lines(_text_of(place, place.workloads), name)
        met: list[str] = []
        found = parse_workloads(lines, definition, met)
        if not found:
            raise ValueError(f"{name}: expected at least one workload")
        chosen = select(definition, found, MAX_WORKLOADS)
    except ValueError as error:
        raise ProblemError(str(error)) from None
    warnings += _gathered(met, name)
    if len(chosen) < len(found):
        warnings.append(
            f"{name}: {len(found)} workloads, of which {len(chosen)} are judged: those with a weight, "
            "then the smallest, the largest and what lies evenly between by size; "
            "for others write a file of their own"
        )
    if place.config:
        warnings.append("config.json: ignored: the guard has its own schedule")
    for uuid in definition.kernelarc.weights or {}:
        if uuid not in {workload.uuid for workload in found}:
            warnings.append(
                f"definition.json: kernelarc.weights: {uuid!r} is no workload of {name}, ignored"
            )
    try:
        problem = Problem(
            definition=definition, workloads=chosen, warnings=warnings, folder=str(place.folder)
        )
    except ValidationError as error:
        raise ProblemError(f"{name}: {first_error(error)[1]}") from None
    return problem, Documents(raw, [line for _, line in lines])


def _text_of(place: Place, file: Path) -> str:
    """Return a file's text; one that is missing is named with its folder."""
    if not file.exists():
        raise ValueError(f"{file}: no such file; expected {place.expected}")
    refuse_links_out(file, place.folder)
    return read_text(file)


def _gathered(warnings: list[str], name: str) -> list[str]:
    """Return warnings about lines of a file, those about many lines as one."""
    by_text: dict[str, list[str]] = {}
    for warning in warnings:
        where, _, said = warning.removeprefix(f"{name}:").partition(": ")
        by_text.setdefault(said, []).append(where)
    gathered: list[str] = []
    for said, lines in by_text.items():
        if len(lines) > _REPEATED:
            gathered.append(f"{name}:{lines[0]}: {said} (here and in {len(lines) - 1} more lines)")
        else:
            gathered += [f"{name}:{line}: {said}" for line in lines]
    return gathered
