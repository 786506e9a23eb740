"""A definition: the interface of an operator, its reference and our own keys; light."""

import ast
from collections.abc import Collection, Mapping
from typing import Final, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from kernelarc_guard import pyast
from kernelarc_guard.axes import (
    MAX_EXTENT,
    Axis,
    ConstAxis,
    ExprAxis,
    VarAxis,
    axis_names,
    evaluate,
)
from kernelarc_guard.control import MAX_DIMS, MAX_OUTPUTS, MAX_SCALARS
from kernelarc_guard.keys import KINDS, KernelArcKeys, Kind, TopK
from kernelarc_guard.model import Model

__all__ = ["DTYPES", "KINDS", "Definition", "KernelArcKeys", "Kind", "TensorSpec", "TopK"]

DTYPES: Final = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float4_e2m1",
    "float4_e2m1fn_x2",
    "int64",
    "int32",
    "int16",
    "int8",
    "bool",
)
_LEFT_OUT: Final = {
    f"dsa_sparse_attention_h16_ckv512_kpe64_topk2048_ps{page}": ("lse",) for page in (1, 64)
}
"""Outputs that FlashInfer-Bench's own evaluator lets solutions leave out, by definition."""


class TensorSpec(Model):
    """One input or output."""

    shape: list[str] | None
    """Axis names or digit strings; `[]` is a 0-d tensor, null a Python scalar."""
    dtype: str
    description: str = ""
    optional: bool = False
    """Of an output: a value-returning solution may leave it out, if it always does."""

    @field_validator("dtype")
    @classmethod
    def _known(cls, dtype: str) -> str:
        if dtype not in DTYPES:
            raise ValueError(f"{dtype!r} is not one of {', '.join(DTYPES)}")
        return dtype

    @field_validator("description", "optional", mode="before")
    @classmethod
    def _no_null(cls, value: object, info: ValidationInfo) -> object:
        if value is not None:
            return value
        return "" if info.field_name == "description" else False


class Definition(Model):
    """An operator: axes, inputs, outputs and a reference in Python."""

    name: str = Field(min_length=1, max_length=200)
    axes: dict[str, Axis]
    inputs: dict[str, TensorSpec] = Field(min_length=1)
    """In the order of the call."""
    outputs: dict[str, TensorSpec] = Field(min_length=1)
    reference: str
    """Python source with a top-level `run` whose parameters are the inputs."""
    op_type: str | None = None
    description: str = ""
    hf_id: str | None = None
    custom_inputs_entrypoint: str | None = None
    """A top-level function of the reference: (resolved axes and scalars, device) -> inputs."""
    constraints: list[str] = []
    """Kept for the reader of the problem; not evaluated."""
    kernelarc: KernelArcKeys = KernelArcKeys()

    @field_validator("description", mode="before")
    @classmethod
    def _no_null(cls, value: object) -> object:
        return "" if value is None else value

    @field_validator("constraints", "kernelarc", mode="before")
    @classmethod
    def _absent(cls, value: object, info: object) -> object:
        if value is not None:
            return value
        return [] if getattr(info, "field_name", "") == "constraints" else {}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._check_names()
        self._check_counts()
        self._check_axes()
        for side in ("inputs", "outputs"):
            for name, spec in getattr(self, side).items():
                self._check_shape(f"{side}.{name}.shape", spec)
        self._check_reference()
        for field in ("mutable_inputs", "static_inputs"):
            for name in getattr(self.kernelarc, field):
                if name not in self.inputs:
                    raise ValueError(f"kernelarc.{field}: {name!r} is not an input")
        if isinstance(self.kernelarc.distributions, dict):
            for name in self.kernelarc.distributions:
                if name not in self.inputs:
                    raise ValueError(f"kernelarc.distributions: {name!r} is not an input")
        return self

    def _check_names(self) -> None:
        for name in (*self.axes, *self.inputs, *self.outputs):
            if not name.isidentifier():
                raise ValueError(f"{name!r} is not a name; expected letters, digits and _")
        for name in self.outputs:
            if name in self.inputs:
                raise ValueError(f"outputs.{name}: is an input too; expected another name")
        for name in self.inputs:
            if name in self.axes:
                raise ValueError(f"inputs.{name}: is an axis too; expected another name")

    def _check_axes(self) -> None:
        known = {name for name, axis in self.axes.items() if not isinstance(axis, ExprAxis)}
        for name, axis in self.axes.items():
            if isinstance(axis, ExprAxis):
                try:
                    unknown = sorted(axis_names(axis.expression) - known)
                except ValueError as error:
                    raise ValueError(f"axes.{name}.expression: {error}") from None
                if unknown:
                    raise ValueError(
                        f"axes.{name}.expression: {unknown[0]!r} is no const, var or earlier axis"
                    )
                known.add(name)

    def _check_shape(self, where: str, spec: TensorSpec) -> None:
        shape = spec.shape or []
        if len(shape) > MAX_DIMS:
            raise ValueError(f"{where}: {len(shape)} dimensions; at most {MAX_DIMS}")
        if not shape and spec.dtype.startswith("float4"):
            raise ValueError(f"{where}: expected a dimension: {spec.dtype} packs its last one")
        for extent in shape:
            if extent in self.axes:
                continue
            if not (extent.isascii() and extent.isdigit()):
                raise ValueError(f"{where}: {extent!r} is neither an axis nor a number")
            if len(extent) > len(str(MAX_EXTENT)) or int(extent) > MAX_EXTENT:
                raise ValueError(f"{where}: expected lengths of at most {MAX_EXTENT}")

    def _check_counts(self) -> None:
        if len(self.outputs) > MAX_OUTPUTS:
            raise ValueError(f"outputs: {len(self.outputs)}; at most {MAX_OUTPUTS}")
        scalars = [name for name, spec in self.inputs.items() if spec.shape is None]
        if len(scalars) > MAX_SCALARS:
            raise ValueError(f"inputs: {len(scalars)} Python scalars; at most {MAX_SCALARS}")

    def _check_reference(self) -> None:
        try:
            defined = pyast.functions(pyast.parse(self.reference))
        except ValueError as error:
            raise ValueError(f"reference: {error}") from None
        run = defined.get("run")
        if run is None:
            raise ValueError("reference: expected a top-level function run")
        self._check_run(run)
        self._check_form(list(defined))
        entry = self.custom_inputs_entrypoint
        if entry is not None and entry not in defined:
            raise ValueError(
                f"custom_inputs_entrypoint: {entry!r} is no top-level function of the reference"
            )

    def _check_form(self, functions: list[str]) -> None:
        asked = self.kernelarc.compared_as
        if isinstance(asked, TopK):
            values = [asked.values] if asked.values is not None else []
            for name in (asked.indices, *values):
                if name not in self.outputs:
                    raise ValueError(f"kernelarc.compared_as: {name!r} is not an output")
            if asked.of not in self.inputs:
                raise ValueError(f"kernelarc.compared_as: {asked.of!r} is not an input")
        elif asked not in (None, "sampling", *functions):
            raise ValueError(
                f"kernelarc.compared_as: {asked!r} is neither sampling nor a top-level function of the "
                "reference"
            )

    def _check_run(self, run: ast.FunctionDef) -> None:
        parameters = pyast.positional(run)
        names = list(self.inputs)
        # The call is by position. Other names are legal, the names of other inputs are a mistake.
        swapped = [
            p for p, name in zip(parameters, names, strict=False) if p != name and p in names
        ]
        if len(parameters) != len(names) or swapped:
            raise ValueError(
                f"reference: run takes ({', '.join(parameters)}); "
                f"expected the inputs in order ({', '.join(names)})"
            )
        if run.args.vararg is not None or None in run.args.kw_defaults:
            raise ValueError("reference: run takes more than the inputs")

    @property
    def required_outputs(self) -> list[str]:
        """Return the outputs that every solution gives, in order; the optional ones follow them.

        Outputs are told apart by their places, so that only last ones can be left out, and never
        where a form compares them together.
        """
        names = list(self.outputs)
        if self.kernelarc.compared_as is not None:
            return names
        while len(names) > 1 and self.is_optional(names[-1]):
            del names[-1]
        return names

    def is_optional(self, output: str) -> bool:
        """Say whether an output is stated to be optional, or FlashInfer-Bench lets it go."""
        return self.outputs[output].optional or output in _LEFT_OUT.get(self.name, ())

    def answered(self, given: Collection[str]) -> list[str]:
        """Return the outputs that an answer has to be right in: all but optional ones not `given`."""
        required = self.required_outputs
        return [name for name in self.outputs if name in required or name in given]

    @property
    def operator_class(self) -> str:
        """Return the class lenses and memory are chosen by."""
        return self.kernelarc.operator_class or self.op_type or "other"

    def var_axes(self) -> list[str]:
        """Return the axes every workload must state."""
        return [name for name, axis in self.axes.items() if isinstance(axis, VarAxis)]

    def resolve(self, axes: Mapping[str, int]) -> dict[str, int]:
        """Return the length of every axis, in file order, from the lengths of the var axes.

        ValueError names an axis that is missing, unknown or comes out as no length.
        """
        expected = self.var_axes()
        missing = [name for name in expected if name not in axes]
        if missing:
            raise ValueError(f"axes.{missing[0]}: missing; expected a length")
        for name in axes:
            if name not in expected:
                raise ValueError(f"axes.{name}: expected only {', '.join(expected) or 'no axes'}")
        known = {n: a.value for n, a in self.axes.items() if isinstance(a, ConstAxis)} | dict(axes)
        for name, axis in self.axes.items():
            if isinstance(axis, ExprAxis):
                try:
                    known[name] = evaluate(axis.expression, known)
                except ValueError as error:
                    raise ValueError(f"axes.{name}: {error}") from None
        return {name: known[name] for name in self.axes}

    def input_shape(self, name: str, resolved: Mapping[str, int]) -> tuple[int, ...] | None:
        """Return the shape of an input under resolved axes; None for a Python scalar."""
        return _shape(self.inputs[name], resolved)

    def output_shape(self, name: str, resolved: Mapping[str, int]) -> tuple[int, ...] | None:
        """Return the shape of an output under resolved axes; None for a Python scalar."""
        return _shape(self.outputs[name], resolved)


def _shape(spec: TensorSpec, resolved: Mapping[str, int]) -> tuple[int, ...] | None:
    if spec.shape is None:
        return None
    return tuple(resolved[dim] if dim in resolved else int(dim) for dim in spec.shape)
