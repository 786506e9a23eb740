"""A workload: one set of axis lengths, where its inputs come from, and its tolerance; light."""

import math
import re
from pathlib import PurePosixPath
from typing import Literal, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, model_validator

from kernelarc_guard.axes import MAX_EXTENT, Extent
from kernelarc_guard.definition import Definition
from kernelarc_guard.model import Model


class Tolerance(Model):
    """How far an output may be from the reference: |a - b| <= max_atol + max_rtol * |b|."""

    max_atol: float = Field(default=1e-2, ge=0)
    max_rtol: float = Field(default=1e-2, ge=0)
    required_matched_ratio: float = Field(default=0.99, ge=0, le=1)
    max_error_cap: float | None = Field(default=None, ge=0)
    """Largest absolute error of any element, matched or not."""
    allow_negative_inf: bool = False


class InputSpec(Model):
    """Where the values of one input come from."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: StrictBool | StrictInt | StrictFloat | None = None
    path: str | None = Field(default=None, max_length=1000)
    """Relative to the problem's folder or to the data set's root; leading parts may be dropped."""
    tensor_key: str | None = None

    @model_validator(mode="after")
    def _fits_type(self) -> Self:
        if (self.value is not None) != (self.type == "scalar"):
            raise ValueError("expected a value exactly where type is scalar")
        if isinstance(self.value, int) and not -(2**63) <= self.value < 2**63:
            raise ValueError("value: expected an integer of 64 bits")
        from_file = self.type == "safetensors"
        if (self.path is not None) != from_file or (self.tensor_key is not None) != from_file:
            raise ValueError("expected path and tensor_key exactly where type is safetensors")
        if self.path is not None:
            pure = PurePosixPath(self.path)
            # An absolute path is looked for below the problem's folder too: see formats.blobs.
            if ".." in pure.parts or not pure.name or "\\" in self.path or "\0" in self.path:
                raise ValueError(f"path {self.path!r} must be one of a file and stay in the folder")
        return self


class Workload(Model):
    """One shape of a problem."""

    uuid: str = Field(min_length=1, max_length=100)
    axes: dict[str, Extent]
    inputs: dict[str, InputSpec] = {}
    """An input that is not named is random."""
    tolerance: Tolerance = Tolerance()

    @model_validator(mode="after")
    def _printable(self) -> Self:
        if not re.fullmatch(r"[\w.:+-]+", self.uuid):
            raise ValueError(f"uuid: {self.uuid!r}: expected letters, digits and . : + - _")
        return self


def check_workload(definition: Definition, workload: Workload) -> None:
    """Raise ValueError, starting with the field, where a workload does not fit its definition."""
    resolved = definition.resolve(workload.axes)
    for name in workload.inputs:
        if name not in definition.inputs:
            raise ValueError(
                f"inputs.{name}: no such input; expected {', '.join(definition.inputs)}"
            )
    kinds = {name: workload.inputs.get(name, RANDOM).type for name in definition.inputs}
    custom = [name for name, kind in kinds.items() if kind == "custom"]
    if custom and len(custom) < len(kinds):
        other = next(name for name in kinds if name not in custom)
        raise ValueError(f"inputs.{other}: expected custom, as the other inputs are")
    if custom and definition.custom_inputs_entrypoint is None:
        raise ValueError(
            f"inputs.{custom[0]}: is custom, but the definition has no custom_inputs_entrypoint"
        )
    for name, kind in kinds.items():
        shape = definition.input_shape(name, resolved)
        if kind == "scalar" and shape is not None:
            raise ValueError(f"inputs.{name}: is scalar, but the definition says a tensor")
        if kind == "safetensors" and shape is None:
            raise ValueError(f"inputs.{name}: is safetensors, but the definition says a scalar")
    for side, specs in (("inputs", definition.inputs), ("outputs", definition.outputs)):
        for name in specs:
            shape = (definition.input_shape if side == "inputs" else definition.output_shape)(
                name, resolved
            )
            # Also where one length is 0: torch multiplies the others.
            if math.prod(max(length, 1) for length in shape or ()) > MAX_EXTENT:
                raise ValueError(f"{side}.{name}: has more than {MAX_EXTENT} elements")


RANDOM = InputSpec(type="random")
