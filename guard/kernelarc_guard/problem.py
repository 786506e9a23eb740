"""A problem: a definition with its workloads, and the reader of problem folders; light.

The folder is read in SOL-ExecBench form; workload lines of FlashInfer-Trace are read too.
"""

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from pydantic import Field, ValidationError, model_validator

from kernelarc_guard.axes import Axis, ConstAxis, ExprAxis, VarAxis
from kernelarc_guard.definition import DTYPES, Definition, KernelArcKeys, TensorSpec
from kernelarc_guard.model import Model
from kernelarc_guard.textfile import first_error, known_only, parse_object, read_text
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
    "read_problem",
]


MAX_WORKLOADS: Final = 190
"""More descriptors than one message to a runner may carry would be needed for more."""


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
        content = {
            "definition": definition.model_dump(mode="json"),
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


def read_problem(folder: Path, workloads: str = "workload.jsonl") -> Problem:
    """Read a problem folder; ProblemError says in one line which file and field is wrong."""
    warnings: list[str] = []
    try:
        definition = _read_definition(folder, warnings)
        lines = _read_workloads(folder, workloads, definition, warnings)
    except ValueError as error:
        raise ProblemError(str(error)) from None
    weights = definition.kernelarc.weights
    if weights is not None:
        uuids = {workload.uuid for workload in lines}
        warnings.extend(
            f"definition.json: kernelarc.weights: {uuid!r} is no workload of {workloads}, ignored"
            for uuid in weights
            if uuid not in uuids
        )
    try:
        return Problem(
            definition=definition,
            workloads=lines,
            warnings=warnings,
            folder=str(folder.resolve()),
        )
    except ValidationError as error:
        raise ProblemError(f"{workloads}: {first_error(error)[1]}") from None


def _read_definition(folder: Path, warnings: list[str]) -> Definition:
    name = "definition.json"
    if not folder.is_dir():
        raise ValueError(f"{folder}: expected a folder with {name} and workload.jsonl")
    raw = parse_object(_text_of(folder, name), name)
    where = f"{name}: "
    known = known_only(raw, Definition, where, warnings)
    axes: dict[str, type[Model]] = {"const": ConstAxis, "var": VarAxis, "expr": ExprAxis}
    if isinstance(known.get("axes"), dict):
        known["axes"] = {
            axis: known_only(spec, axes[spec["type"]], f"{where}axes.{axis}.", warnings)
            if isinstance(spec, dict) and spec.get("type") in list(axes)
            else spec
            for axis, spec in known["axes"].items()
        }
    for side in ("inputs", "outputs"):
        if isinstance(known.get(side), dict):
            known[side] = {
                key: known_only(spec, TensorSpec, f"{where}{side}.{key}.", warnings)
                for key, spec in known[side].items()
            }
    if "kernelarc" in known:
        known["kernelarc"] = known_only(
            known["kernelarc"], KernelArcKeys, f"{where}kernelarc.", warnings
        )
    try:
        return Definition.model_validate(known)
    except ValidationError as error:
        raise ValueError(f"{where}{first_error(error)[1]}") from None


def _text_of(folder: Path, name: str) -> str:
    """Return a file's text; one that is missing is named with its folder."""
    path = folder / name
    if not path.exists():
        raise ValueError(f"{path}: no such file; expected a folder with {name} in it")
    return read_text(path)


def _read_workloads(
    folder: Path, name: str, definition: Definition, warnings: list[str]
) -> list[Workload]:
    if Path(name).name != name:
        raise ValueError(f"{name}: expected a file name inside the problem folder")
    workloads: list[Workload] = []
    seen: dict[str, int] = {}
    # Only "\n" ends a line here: other separators may stand inside a JSON string.
    for number, line in enumerate(_text_of(folder, name).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        workload = _workload(parse_object(line, where), where, definition, warnings)
        if workload.uuid in seen:
            first = seen[workload.uuid]
            raise ValueError(f"{where}: uuid: {workload.uuid!r} occurs in line {first} already")
        seen[workload.uuid] = number
        workloads.append(workload)
    if not workloads:
        raise ValueError(f"{name}: expected at least one workload")
    return workloads


def _workload(
    raw: dict[str, Any], where: str, definition: Definition, warnings: list[str]
) -> Workload:
    if isinstance(raw.get("workload"), dict) and "uuid" not in raw:
        raw = _unwrapped(raw, where, definition, warnings)
    known = known_only(raw, Workload, f"{where}: ", warnings)
    if isinstance(known.get("inputs"), dict):
        known["inputs"] = {
            key: known_only(spec, InputSpec, f"{where}: inputs.{key}.", warnings)
            for key, spec in known["inputs"].items()
        }
    if "tolerance" in known:
        known["tolerance"] = (
            {}
            if known["tolerance"] is None
            else known_only(known["tolerance"], Tolerance, f"{where}: tolerance.", warnings)
        )
    try:
        workload = Workload.model_validate(known)
    except ValidationError as error:
        raise ValueError(f"{where}: {first_error(error)[1]}") from None
    try:
        check_workload(definition, workload)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return workload


def _unwrapped(
    raw: dict[str, Any], where: str, definition: Definition, warnings: list[str]
) -> dict[str, Any]:
    """Return the workload inside a line of a FlashInfer trace."""
    named = raw.get("definition")
    if named is not None and named != definition.name:
        raise ValueError(f"{where}: definition: {named!r}; expected {definition.name!r}")
    warnings.extend(
        f"{where}: {key}: unknown key, ignored"
        for key, value in raw.items()
        if key not in ("workload", "definition") and value is not None
    )
    inner: dict[str, Any] = raw["workload"]
    return inner
