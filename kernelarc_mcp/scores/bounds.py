"""Published bounds and baselines: where they come from, of which device, and for which workloads.

They stand in a definition under `kernelarc.bounds`, or in a file of the same form. Nothing is a bound
here without its source and date.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from kernelarc_guard.model import Model
from kernelarc_guard.problem import Problem, Workload
from kernelarc_guard.textfile import first_error, parse_object, read_text


class BoundsError(ValueError):
    """Bounds that cannot be used; one line that names the field."""


class WorkloadBound(Model):
    """What is published for one workload, in milliseconds."""

    uuid: str = ""
    axes: dict[str, int] = {}
    """Without a uuid: the workload whose resolved axes hold all of these."""
    t_sol_ms: float = Field(gt=0)
    t_b_ms: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if bool(self.uuid) == bool(self.axes):
            raise ValueError("expected a uuid or axes, not both")
        return self


class Bounds(Model):
    """Published bounds of a problem, and what its author counted."""

    device: str = ""
    """Of the times, as its vendor names it."""
    source: str = ""
    date: str = ""
    """When the numbers were read, ISO 8601."""
    operations: dict[str, str] = {}
    """Dtype -> matrix operations of a call, an expression over the axes; a multiply-add is two."""
    bytes: str = ""
    """Bytes a call has to move, an expression over the axes; empty: all inputs and outputs once."""
    workloads: list[WorkloadBound] = []

    @model_validator(mode="after")
    def _sourced(self) -> Self:
        if self.workloads:
            for field in ("device", "source", "date"):
                if not getattr(self, field):
                    raise ValueError(f"{field}: published times need one")
        return self

    def of(self, workload: Workload, resolved: Mapping[str, int]) -> WorkloadBound | None:
        """Return what is published for a workload, None where nothing is."""
        for one in self.workloads:
            if one.uuid == workload.uuid:
                return one
            if one.axes and all(resolved.get(axis) == n for axis, n in one.axes.items()):
                return one
        return None


def bounds_of(problem: Problem) -> Bounds:
    """Return a problem's own bounds; BoundsError where its `kernelarc.bounds` are none."""
    raw = problem.definition.kernelarc.bounds
    return Bounds() if raw is None else _read(raw, "definition.json: kernelarc.bounds")


def read_bounds(path: Path) -> Bounds:
    """Read a file of bounds; BoundsError names the field that is wrong."""
    try:
        return _read(parse_object(read_text(path), path.name), path.name)
    except BoundsError:
        raise
    except (ValueError, OSError) as error:
        raise BoundsError(f"{path}: {error}") from None


def _read(raw: Mapping[str, Any], where: str) -> Bounds:
    try:
        return Bounds.model_validate(raw)
    except ValidationError as error:
        raise BoundsError(f"{where}: {first_error(error)[1]}") from None
