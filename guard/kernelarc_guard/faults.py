"""The guard's exceptions.

GuardError
  Refused           the guard cannot judge: problem, record or machine are at fault
  CandidateFault    a solution failed; carries the reason code
    RecordFault     the record failed (becomes Refused)
"""

from typing import Literal


class GuardError(Exception):
    """Base of what the guard raises itself."""


RefusalCode = Literal["", "record_failed", "anchor_failed"]


class Refused(GuardError):
    """The request cannot be judged; the message says why and what would help."""

    def __init__(self, message: str, code: RefusalCode = "") -> None:
        super().__init__(message)
        self.code: RefusalCode = code


class SolutionFault(GuardError):
    """A solution misbehaved: `reason` is a reason code, `workload` an index where one is known."""

    def __init__(self, reason: str, detail: str, workload: int | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.workload = workload


class CandidateFault(SolutionFault):
    """The candidate misbehaved."""
