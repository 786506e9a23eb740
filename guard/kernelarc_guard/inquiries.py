"""Questions to the guard that decide nothing: counting a problem's work, profiling a solution.

Light; the server imports it. The wire is that of `protocol`: one JSON request a line, progress, and
one answer.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from kernelarc_guard.model import Model
from kernelarc_guard.problem import Problem
from kernelarc_guard.profile_model import Profile
from kernelarc_guard.protocol import Answer, BaseRequest, Lease, Request
from kernelarc_guard.roofs import Roofs
from kernelarc_guard.rule import Rulers
from kernelarc_guard.solution import Solution


class Count(BaseRequest):
    """Count the bytes and operations of each workload, and say what the device can do at most."""

    op: Literal["count"] = "count"
    problem: Problem


class ProfileRequest(BaseRequest):
    """Profile a solution on one workload. Nothing is decided by it."""

    op: Literal["profile"] = "profile"
    problem: Problem
    candidate: Solution
    record: Solution | None = None
    """What its machine code is compared with; only built, never run."""
    workload: str
    """Its uuid."""
    reports: str = ""
    """Folder for the raw reports; the guard creates it. Empty: none are kept."""
    call_us: float | None = Field(default=None, gt=0)
    """What a call was measured to take, where it was: a profiler cannot tell."""
    rulers: Rulers | None = None
    """Of the device's calibration: on a CPU they are what shares are told of."""


class WorkCount(Model):
    """What one workload asks for."""

    uuid: str
    read_bytes: int = Field(ge=0)
    """Of all inputs."""
    written_bytes: int = Field(ge=0)
    """Of all outputs."""
    operations: dict[str, int] | None
    """Dtype -> matrix operations of the reference; None: they could not be counted."""
    other_operations: int | None
    """Elements that its other operators compute: no part of any bound."""
    how: str
    """How they were counted, or why not."""


class Counted(Model):
    """The answer to `Count`."""

    event: Literal["counted"] = "counted"
    id: str
    at: str
    """When the roofs were measured, ISO 8601."""
    work: list[WorkCount]
    roofs: Roofs
    lease: Lease | None = None


class Profiled(Model):
    """The answer to `ProfileRequest`."""

    event: Literal["profiled"] = "profiled"
    id: str
    profile: Profile
    files: list[str] = []
    """Raw reports that were kept, in the folder that was asked for."""
    protection: dict[str, str] = {}
    lease: Lease | None = None
    seconds: float = Field(default=0.0, ge=0)


Inquiry = Count | ProfileRequest
Question = Annotated[Request | Count | ProfileRequest, Field(discriminator="op")]
QUESTION: TypeAdapter[Question] = TypeAdapter(Question)
Reply = Annotated[Answer | Counted | Profiled, Field(discriminator="event")]
REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)
