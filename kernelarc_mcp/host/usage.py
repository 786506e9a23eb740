"""What the clients say they used: one row for each run of a client, and sums that say what is missing."""

from dataclasses import dataclass, field
from typing import Literal, Self

from pydantic import Field, model_validator

from kernelarc_guard.model import Model
from kernelarc_mcp.views import UsageView


class Used(Model):
    """A run of an agent's client ended; the numbers are the client's own."""

    kind: Literal["used"] = "used"
    run: str = Field(min_length=1, max_length=100)
    """Names the run among its agent's: the same one is recorded once."""
    client: str = Field(max_length=100)
    input_tokens: int | None = Field(ge=0, le=10**15)
    """None where the client did not say."""
    output_tokens: int | None = Field(ge=0, le=10**15)
    cost_usd: float | None = Field(ge=0, le=1e9, allow_inf_nan=False)
    cached_tokens: int | None = Field(default=None, ge=0, le=10**15)
    """Of the input, what was read from a cache; None where the client did not say."""
    model: str = Field(default="", max_length=100)
    """As its vendor names it; empty where the client did not say, or used several."""
    priced_usd: float | None = Field(default=None, ge=0, le=1e9, allow_inf_nan=False)
    """What the table of prices gave when this was recorded, in a campaign with a limit on money."""

    @model_validator(mode="after")
    def _cached_is_part_of_the_input(self) -> Self:
        if self.cached_tokens is not None and self.cached_tokens > (self.input_tokens or 0):
            raise ValueError("cached_tokens: expected at most the input tokens")
        return self

    @model_validator(mode="after")
    def _priced_only_without_a_cost(self) -> Self:
        if self.priced_usd is not None and self.cost_usd is not None:
            raise ValueError("priced_usd: expected none beside a cost that the client said")
        return self


@dataclass
class ModelTokens:
    """Tokens of one model in runs whose client said no cost."""

    runs: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass
class UsageTotals:
    """Sums over an agent's runs."""

    runs: set[str] = field(default_factory=set)
    input_tokens: int = 0
    output_tokens: int = 0
    with_tokens: int = 0
    """Runs that said both."""
    cost_usd: float = 0.0
    with_cost: int = 0
    """Runs that said it."""
    priced_usd: float = 0.0
    priced: int = 0
    """Runs whose row has what a table of prices gave."""
    without_cost: dict[str, ModelTokens] = field(default_factory=dict)
    """Model -> runs that said all their tokens and no cost."""
    models: set[str] = field(default_factory=set)

    def add(self, used: Used) -> None:
        """Count a run."""
        self.runs.add(used.run)
        self.input_tokens += used.input_tokens or 0
        self.output_tokens += used.output_tokens or 0
        self.with_tokens += used.input_tokens is not None and used.output_tokens is not None
        self.cost_usd += used.cost_usd or 0.0
        self.with_cost += used.cost_usd is not None
        self.priced_usd += used.priced_usd or 0.0
        self.priced += used.priced_usd is not None
        if used.model:
            self.models.add(used.model)
        counts = (used.input_tokens, used.cached_tokens, used.output_tokens)
        if used.cost_usd is None and None not in counts:
            sums = self.without_cost.setdefault(used.model, ModelTokens())
            sums.runs += 1
            sums.input_tokens += used.input_tokens or 0
            sums.cached_tokens += used.cached_tokens or 0
            sums.output_tokens += used.output_tokens or 0

    @property
    def known_usd(self) -> float:
        """Return what the rows themselves know of: said by clients or priced when recorded."""
        return self.cost_usd + self.priced_usd

    @property
    def with_known_usd(self) -> int:
        """Return of how many runs."""
        return self.with_cost + self.priced

    def view(self) -> UsageView | None:
        """Return what to show; None where no run was recorded."""
        if not self.runs:
            return None
        return UsageView(
            runs=len(self.runs),
            input_tokens=self.input_tokens if self.with_tokens else None,
            output_tokens=self.output_tokens if self.with_tokens else None,
            runs_with_tokens=self.with_tokens,
            cost_usd=self.cost_usd if self.with_cost else None,
            runs_with_cost=self.with_cost,
        )
