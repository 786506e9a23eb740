"""Traces: one result of one solution on one workload, in and out; light.

SOL-ExecBench and FlashInfer-Bench share the form. The first has two more statuses and two more
correctness flags, the second writes infinite errors as text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from kernelarc_guard.formats.documents import Document, dump_lines, parse_lines
from kernelarc_guard.model import Model
from kernelarc_guard.textfile import first_error, known_only, read_text

Status = Literal[
    "PASSED",
    "INVALID_REFERENCE",
    "INCORRECT_SHAPE",
    "INCORRECT_NUMERICAL",
    "INCORRECT_DTYPE",
    "RUNTIME_ERROR",
    "COMPILE_ERROR",
    "TIMEOUT",
    "REWARD_HACK",
]
"""What became of a workload. FlashInfer-Bench knows neither INVALID_REFERENCE nor REWARD_HACK."""
Form = Literal["sol", "flashinfer"]


class Correctness(Model):
    """How far outputs were from the reference's."""

    max_relative_error: float = 0.0
    max_absolute_error: float = 0.0
    has_nan: bool = False
    has_inf: bool = False
    extra: dict[str, Any] | None = None

    @field_validator("max_relative_error", "max_absolute_error", mode="before")
    @classmethod
    def _finite(cls, value: object) -> object:
        # FlashInfer-Bench writes "Infinity" and "NaN"; has_inf and has_nan keep what they say.
        if isinstance(value, str) and value.strip("-+").lower() in ("inf", "infinity", "nan"):
            return 0.0
        return value

    @model_validator(mode="before")
    @classmethod
    def _flags(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        texts = [
            str(value.get(key)).lower() for key in ("max_relative_error", "max_absolute_error")
        ]
        flags = {}
        if any("inf" in text for text in texts):
            flags["has_inf"] = True
        if "nan" in texts:
            flags["has_nan"] = True
        return value | flags


class Performance(Model):
    """How long a call took."""

    latency_ms: float = Field(default=0.0, ge=0)
    reference_latency_ms: float = Field(default=0.0, ge=0)
    """0 where the reference was not measured."""
    speedup_factor: float = Field(default=0.0, ge=0)
    """Reference over solution; 0 where the reference was not measured."""


class Environment(Model):
    """Where it ran."""

    hardware: str = Field(min_length=1)
    libs: dict[str, str] = {}


class Evaluation(Model):
    """One result."""

    status: Status
    environment: Environment
    timestamp: str = Field(min_length=1)
    log: str = ""
    correctness: Correctness | None = None
    """Of PASSED and INCORRECT_NUMERICAL only."""
    performance: Performance | None = None
    """Of PASSED only."""

    @model_validator(mode="after")
    def _fits_status(self) -> Self:
        compared = self.status in ("PASSED", "INCORRECT_NUMERICAL")
        if (self.correctness is not None) != compared:
            raise ValueError(
                f"correctness: expected {'one' if compared else 'none'} with status {self.status}"
            )
        timed = self.status == "PASSED"
        if (self.performance is not None) != timed:
            raise ValueError(
                f"performance: expected {'one' if timed else 'none'} with status {self.status}"
            )
        return self


@dataclass(frozen=True)
class Trace:
    """One line of a trace file."""

    definition: str
    uuid: str
    """Of the workload."""
    solution: str | None
    """None: the line only states a workload."""
    evaluation: Evaluation | None
    document: Document
    """The line as it stands in its file."""


_MODELS: Final[dict[str, type[Model]]] = {
    "correctness": Correctness,
    "performance": Performance,
    "environment": Environment,
}


def read_traces(path: Path, warnings: list[str]) -> list[Trace]:
    """Read a file of traces; ValueError names file, line, field and what is expected there."""
    return [
        parse_trace(raw, where, warnings) for where, raw in parse_lines(read_text(path), path.name)
    ]


def parse_trace(raw: Document, where: str, warnings: list[str]) -> Trace:
    """Return the trace in a document; unknown keys are named in `warnings` and kept in it."""
    warnings.extend(
        f"{where}: {key}: unknown key, ignored"
        for key in raw
        if key not in ("definition", "workload", "solution", "evaluation")
    )
    definition, workload = raw.get("definition"), raw.get("workload")
    if not isinstance(definition, str) or not definition:
        raise ValueError(f"{where}: definition: expected the name of a definition")
    if not isinstance(workload, dict) or not isinstance(workload.get("uuid"), str):
        raise ValueError(f"{where}: workload: expected an object with a uuid")
    solution, evaluation = raw.get("solution"), raw.get("evaluation")
    if solution is not None and not isinstance(solution, str):
        raise ValueError(f"{where}: solution: expected a name or null")
    if (solution is None) != (evaluation is None):
        raise ValueError(f"{where}: evaluation: expected one exactly where there is a solution")
    result = None
    if evaluation is not None:
        known = known_only(evaluation, Evaluation, f"{where}: evaluation.", warnings)
        if isinstance(known, dict):
            known = {
                key: known_only(value, _MODELS[key], f"{where}: evaluation.{key}.", warnings)
                if key in _MODELS
                else value
                for key, value in known.items()
            }
        try:
            result = Evaluation.model_validate(known)
        except ValidationError as error:
            raise ValueError(f"{where}: evaluation: {first_error(error)[1]}") from None
    return Trace(definition, workload["uuid"], solution, result, raw)


def trace_document(
    definition: str, workload: Document, solution: str, evaluation: Evaluation, form: Form = "sol"
) -> Document:
    """Return a trace as a document of one of both forms.

    FlashInfer-Bench has no REWARD_HACK and no INVALID_REFERENCE: they become RUNTIME_ERROR, and the
    log says what they were.
    """
    result = evaluation.model_dump(mode="json", exclude_none=True)
    for key in ("correctness", "performance"):
        result.setdefault(key, None)
    if form == "flashinfer":
        if evaluation.status in ("REWARD_HACK", "INVALID_REFERENCE"):
            result["status"] = "RUNTIME_ERROR"
            result["log"] = f"{evaluation.status}: {evaluation.log}"
        if result["correctness"] is not None:
            flags = {key: result["correctness"].pop(key) for key in ("has_nan", "has_inf")}
            for key in ("max_relative_error", "max_absolute_error"):
                if any(flags.values()):
                    result["correctness"][key] = "NaN" if flags["has_nan"] else "Infinity"
    return {
        "definition": definition,
        "workload": workload,
        "solution": solution,
        "evaluation": result,
    }


def append_traces(path: Path, traces: Sequence[Document]) -> None:
    """Add traces at the end of a file, which is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(dump_lines(list(traces)))


def now() -> str:
    """Return the present moment as a trace's timestamp."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def in_range(value: float | None, beyond: float = 0.0) -> float:
    """Return an error as a trace may hold it: JSON has no infinities, `beyond` stands for them."""
    return value if value is not None and math.isfinite(value) else beyond
