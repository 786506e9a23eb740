"""Definitions and workloads as JSON documents: what is read is kept, what is understood is a model; light.

A document is the JSON object as it stands in its file, with keys that nothing here understands. The
models are read from it; writers write the document, so a round trip loses nothing.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from kernelarc_guard import pyast
from kernelarc_guard.axes import ConstAxis, ExprAxis, VarAxis
from kernelarc_guard.definition import Definition, KernelArcKeys, TensorSpec
from kernelarc_guard.model import Model
from kernelarc_guard.textfile import first_error, known_only, parse_object
from kernelarc_guard.workload import InputSpec, Tolerance, Workload, check_workload

Document = dict[str, Any]
_AXES: Final[dict[str, type[Model]]] = {"const": ConstAxis, "var": VarAxis, "expr": ExprAxis}
_OLD_DTYPES: Final = {"float8_e4m3": "float8_e4m3fn"}
_KEPT: Final = ("tags",)
"""Keys that the formats know and nothing here needs."""
_REQUIRED: Final = "only last ones, after one that every solution gives, can be left out, and none with compared_as"
_TRACE_KEYS: Final = ("workload", "definition", "solution", "evaluation")


@dataclass(frozen=True)
class Documents:
    """A problem as it stands in its files."""

    definition: Document
    workloads: list[Document]
    """One a line; each is a workload, or a trace that holds one."""


def parse_definition(raw: Document, where: str, warnings: list[str]) -> Definition:
    """Return the definition in a document; ValueError, starting with `where`, names field and fault.

    What is ignored or read as something else is named in `warnings`.
    """
    known = known_only(_modern(raw, where, warnings), Definition, f"{where}: ", warnings)
    where = f"{where}: "
    if isinstance(known.get("axes"), dict):
        known["axes"] = {
            axis: known_only(spec, _AXES[spec["type"]], f"{where}axes.{axis}.", warnings)
            if isinstance(spec, dict) and spec.get("type") in list(_AXES)
            else spec
            for axis, spec in known["axes"].items()
        }
    for side in ("inputs", "outputs"):
        if isinstance(known.get(side), dict):
            known[side] = {
                key: _tensor(spec, f"{where}{side}.{key}.", warnings)
                for key, spec in known[side].items()
            }
    if "kernelarc" in known:
        known["kernelarc"] = known_only(
            known["kernelarc"], KernelArcKeys, f"{where}kernelarc.", warnings
        )
    try:
        definition = Definition.model_validate(known)
    except ValidationError as error:
        raise ValueError(f"{where}{first_error(error)[1]}") from None
    warnings.extend(f"{where}{line}" for line in _not_left_out(definition))
    called = pyast.positional(pyast.functions(pyast.parse(definition.reference))["run"])
    if called != list(definition.inputs):
        warnings.append(
            f"{where}reference: run calls its parameters ({', '.join(called)}); "
            f"the inputs ({', '.join(definition.inputs)}) are passed by position"
        )
    return definition


def _not_left_out(definition: Definition) -> list[str]:
    """Return a line for whatever is stated to be optional and is not."""
    told = [
        f"inputs.{name}.optional: ignored: every input is passed"
        for name, spec in definition.inputs.items()
        if spec.optional
    ]
    return told + [
        f"outputs.{name}.optional: ignored: {_REQUIRED}"
        for name in definition.required_outputs
        if definition.outputs[name].optional
    ]


def _modern(raw: Document, where: str, warnings: list[str]) -> Document:
    """Return a document with what older files and rows of a table write otherwise."""
    modern = {key: value for key, value in raw.items() if key not in _KEPT}
    for key in ("axes", "inputs", "outputs"):
        text = modern.get(key)
        if isinstance(text, str):  # a row of a table holds JSON as text
            modern[key] = parse_object(text, f"{where}: {key}")
    if isinstance(modern.get("type"), str) and modern.get("op_type") is None:
        modern["op_type"] = modern.pop("type")
        warnings.append(f"{where}: type: read as op_type, its name today")
    return modern


def _tensor(spec: Any, where: str, warnings: list[str]) -> Any:
    known = known_only(spec, TensorSpec, where, warnings)
    dtype = known.get("dtype") if isinstance(known, dict) else None
    if isinstance(dtype, str) and dtype in _OLD_DTYPES:
        known["dtype"] = _OLD_DTYPES[dtype]
        warnings.append(f"{where}dtype: {dtype!r} read as {_OLD_DTYPES[dtype]}, its name today")
    return known


def parse_lines(text: str, name: str) -> list[tuple[str, Document]]:
    """Return each line's place (`name:number`) and object; ValueError for a line that is none."""
    # Only "\n" ends a line here: other separators may stand inside a JSON string.
    numbered = enumerate(text.split("\n"), start=1)
    lines = [(f"{name}:{number}", line) for number, line in numbered if line.strip()]
    return [(where, parse_object(line, where)) for where, line in lines]


def parse_workloads(
    lines: list[tuple[str, Document]], definition: Definition, warnings: list[str]
) -> list[Workload]:
    """Return the workloads of lines, each uuid once; ValueError names line, field and fault."""
    workloads: list[Workload] = []
    seen: dict[str, str] = {}
    for where, raw in lines:
        workload = parse_workload(raw, where, definition, warnings)
        if workload.uuid in seen:
            first = seen[workload.uuid].rpartition(":")[2]
            raise ValueError(f"{where}: uuid: {workload.uuid!r} occurs in line {first} already")
        seen[workload.uuid] = where
        workloads.append(workload)
    return workloads


def parse_workload(
    raw: Document, where: str, definition: Definition, warnings: list[str]
) -> Workload:
    """Return the workload in one line's document, which may be a trace without results."""
    if isinstance(raw.get("workload"), dict) and "uuid" not in raw:
        raw = _unwrapped(raw, where, definition, warnings)
    known = known_only(raw, Workload, f"{where}: ", warnings)
    if known.get("inputs", ...) is None:
        del known["inputs"]
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


def _unwrapped(raw: Document, where: str, definition: Definition, warnings: list[str]) -> Document:
    """Return the workload inside a line of a FlashInfer trace."""
    named = raw.get("definition")
    if named is not None and named != definition.name:
        raise ValueError(f"{where}: definition: {named!r}; expected {definition.name!r}")
    for key, value in raw.items():
        if key not in _TRACE_KEYS:
            warnings.append(f"{where}: {key}: unknown key, ignored")
        elif key in ("solution", "evaluation") and value is not None:
            warnings.append(f"{where}: {key}: a result, ignored: this is read for its workload")
    inner: Document = raw["workload"]
    return inner


def dump_document(value: Document) -> str:
    """Return a document as the text of a file of its own."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def dump_lines(values: list[Document]) -> str:
    """Return documents as the text of a file with one a line."""
    lines = [json.dumps(value, ensure_ascii=False, allow_nan=False) for value in values]
    return "".join(line + "\n" for line in lines)
