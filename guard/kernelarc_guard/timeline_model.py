"""What was recorded of one call's work on a device, and what a profile tells of it; light."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from kernelarc_guard.model import Model

MOST_RECORDS: Final = 1000
"""Activities of one call that are told of, the first ones."""
MOST_NAME: Final = 400
"""Characters of an activity's name as it was recorded."""
_Nanoseconds = Annotated[int, Field(ge=0, lt=1 << 63)]
_Whole = Annotated[int, Field(ge=0, lt=1 << 63)]
Dimensions = tuple[_Whole, _Whole, _Whole]
Kind = Literal["kernel", "copy", "fill"]


class Activity(Model):
    """One kernel, copy or fill, as CUPTI recorded it; times on the one clock of its records."""

    kind: Kind
    name: str = Field(max_length=MOST_NAME)
    begin: _Nanoseconds
    end: _Nanoseconds
    correlation: _Whole
    """Of the call of the runtime or driver that launched it; a graph's have one in common."""
    stream: _Whole
    grid: Dimensions | None = None
    block: Dimensions | None = None

    @model_validator(mode="after")
    def _ends_after_it_began(self) -> Self:
        if self.end < self.begin:
            raise ValueError(f"it ends at {self.end} and began at {self.begin}")
        return self


class Launch(Model):
    """A call of the runtime or driver that launched something of it."""

    correlation: _Whole
    begin: _Nanoseconds
    end: _Nanoseconds


class Recorded(Model):
    """What CUPTI recorded of one call."""

    began: _Nanoseconds
    """When the call was entered, on the host."""
    returned: _Nanoseconds
    released: _Nanoseconds | None = None
    """When the kernel ended that it was queued behind; None where it was behind none."""
    activities: list[Activity] = Field(default=[], max_length=MOST_RECORDS)
    launches: list[Launch] = Field(default=[], max_length=MOST_RECORDS)
    left_out: _Whole = 0
    """Activities beyond the first, or that CUPTI has no times of."""

    @property
    def queued(self) -> bool:
        """Say whether all of it was launched before the device was free to begin."""
        return self.released is not None and self.released >= self.returned


class Traces(Model):
    """What the process left in which a call was recorded: a solution may have written it."""

    refused: str = ""
    """Why CUPTI recorded nothing."""
    error: str = ""
    """What the call raised."""
    plain: Recorded | None = None
    behind: Recorded | None = None
    """Of a further call, launched behind a kernel that kept the device busy meanwhile."""


class Part(Model):
    """Activities of a timeline of one name that follow each other, or one."""

    name: str
    kind: Kind
    count: int = Field(default=1, ge=1)
    at_us: float = Field(ge=0)
    """When the first began, from the beginning of the call's first activity."""
    us: float = Field(ge=0)
    """Of all of them."""
    gap_us: float = Field(default=0.0, ge=0)
    """Before the first of them, in which nothing of the call ran."""
    stream: int = Field(default=0, ge=0)
    """Numbered from 0 in the order in which the call's streams began."""
    grid: Dimensions | None = None
    """Of the first; None of copies and fills."""
    block: Dimensions | None = None


class Timeline(Model):
    """One call as CUPTI recorded it in the solution's own process: it explains and decides nothing."""

    queued: bool
    """Were all launches made before the device began, as they are where calls are timed? Gaps are the
    device's own then; else they hold what the host took to launch, or waited for the device."""
    span_us: float = Field(ge=0)
    """From the first activity's beginning to the last one's end."""
    busy_us: float = Field(ge=0)
    """Of that, with at least one activity under way."""
    kernels: int = Field(ge=0)
    copies: int = Field(default=0, ge=0)
    fills: int = Field(default=0, ge=0)
    launches: int = Field(ge=0)
    """Calls of the runtime or driver that launched something; of a graph one."""
    streams: int = Field(ge=0)
    largest_gap_us: float = Field(default=0.0, ge=0)
    overhead_us: float | None = None
    """From the first launching call's beginning to the first activity's, on an idle device."""
    plain_span_us: float | None = None
    """The span of a call that was not queued ahead, launches included."""
    host_us: float | None = None
    """What that call took until it returned, while CUPTI recorded."""
    parts: list[Part] = []
    """In order of their beginning; where there are very many, the names that take longest."""
    left_out: int = Field(default=0, ge=0)
    """Activities that were recorded and are in no number here."""
    said: str
    """What it comes to, in one sentence."""
