"""What a definition says to us alone: the keys under `kernelarc`; light. Import from definition."""

from typing import Final, Literal

from pydantic import Field, JsonValue, field_validator

from kernelarc_guard.model import Model

KINDS: Final = ("scaled", "shifted", "signed", "spiked", "structured", "edge")
"""Kinds of values that inputs are also tried with."""
Kind = Literal["scaled", "shifted", "signed", "spiked", "structured", "edge"]


class TopK(Model):
    """Outputs that are the largest of each row of an input: equal ones may be chosen freely."""

    kind: Literal["topk"]
    indices: str
    """The output with places along the last dimension."""
    of: str
    """The input they are places of."""
    values: str | None = None
    """The output with the values there."""
    ordered: bool = True
    """Must the largest come first? Else any order is right."""
    padding: bool = False
    """May places be -1, where there is nothing to choose?"""


class KernelArcKeys(Model):
    """What a definition says to us alone, under its `kernelarc` key."""

    operator_class: str | None = Field(default=None, min_length=1, max_length=60)
    mutable_inputs: list[str] = []
    """Inputs a solution may write to; any other changed input fails the call."""
    static_inputs: list[str] = []
    """Inputs that change seldom (weights), so that honest prepacking pays."""
    nonfinite_outputs: bool = False
    """The reference may produce NaN or infinity, which a solution must match."""
    determinism: Literal["bitwise"] | None = None
    """`bitwise`: the same inputs must give the same bits again."""
    distributions: list[Kind] | dict[str, list[Kind]] | None = None
    """Kinds of values inputs are also tried with: of every floating tensor, or by input.

    Inputs not named keep the problem's own values, `[]` keeps all of them. Absent: every kind for
    inputs that are random and have no meaning by their name, a scale for those of a generator that
    has no axis of its own for such choices.
    """
    oracle: Literal["float64", "declared"] = "float64"
    """`declared` where the definition quantises on purpose."""
    tolerance: Literal["strict", "sol", "flashinfer"] = "strict"
    threads: int = Field(default=1, ge=1, le=4096, strict=True)
    """CPU threads a solution may use."""
    weights: dict[str, float] | None = None
    """Workload uuid -> weight in the mean over workloads; equal when absent."""
    compared_as: str | TopK | None = None
    """Where equal outputs are the wrong test: `sampling`, a `topk`, or a function of the reference.

    The function gets the inputs and the outputs by name and returns what is compared, by name.
    """
    authored_only: bool = False
    bounds: dict[str, JsonValue] | None = None

    @field_validator("nonfinite_outputs", mode="before")
    @classmethod
    def _must_match(cls, value: object) -> object:
        return True if value == "must_match" else value

    @field_validator("weights")
    @classmethod
    def _some_weight(cls, weights: dict[str, float] | None) -> dict[str, float] | None:
        if weights is not None and (
            min(weights.values(), default=0.0) < 0 or not any(weights.values())
        ):
            raise ValueError("expected weights of at least 0, one of them above 0")
        return weights
