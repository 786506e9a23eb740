"""The guard's exceptions.

GuardError
  Refused           the guard cannot judge: problem, record or machine are at fault
  CandidateFault    a solution failed; carries the reason code
    RecordFault     the record failed (becomes Refused)
"""


class GuardError(Exception):
    """Base of what the guard raises itself."""


class Refused(GuardError):
    """The request cannot be judged; the message says why and what would help."""


class SolutionFault(GuardError):
    """A solution misbehaved: `reason` is a reason code, `workload` an index where one is known."""

    def __init__(self, reason: str, detail: str, workload: int | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.workload = workload


class CandidateFault(SolutionFault):
    """The candidate misbehaved."""
