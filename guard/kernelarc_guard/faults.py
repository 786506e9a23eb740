"""The guard's exceptions.

GuardError
  Refused           the guard cannot judge: problem, record or machine are at fault
  CandidateFault    a solution failed; carries the reason code
    RecordFault     the record failed (becomes Refused)
"""

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:  # it imports pydantic
    from kernelarc_guard.protocol import Lease

MAX_DETAIL: Final = 20_000
"""Characters of a message; what is longer is cut and says so."""


class GuardError(Exception):
    """Base of what the guard raises itself."""


def plain(text: str) -> str:
    """Return a text that any reader of JSON takes: halves of characters escaped, its length bounded.

    What a candidate says may hold anything.
    """
    if len(text) > MAX_DETAIL:
        text = f"{text[:MAX_DETAIL]} ... [cut, {len(text)} characters]"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


RefusalCode = Literal["", "record_failed", "anchor_failed", "builder_lost"]


class Refused(GuardError):
    """The request cannot be judged; the message says why and what would help."""

    def __init__(self, message: str, code: RefusalCode = "") -> None:
        super().__init__(plain(message))
        self.code: RefusalCode = code
        self.lease: Lease | None = None
        """When the device was held, of a refused inquiry that came so far."""


class SolutionFault(GuardError):
    """A solution misbehaved: `reason` is a reason code, `workload` an index where one is known."""

    def __init__(self, reason: str, detail: str, workload: int | None = None) -> None:
        self.reason = reason
        self.detail = plain(detail)
        super().__init__(self.detail)
        self.workload = workload


class CandidateFault(SolutionFault):
    """The candidate misbehaved."""
