"""Problems that were tried: each once in a guard's life (imports torch)."""

from kernelarc_guard.check_problem import check_problem
from kernelarc_guard.faults import Refused
from kernelarc_guard.legality import Kinds
from kernelarc_guard.problem import Problem, ProblemError


class Trials:
    """Remembers which problems can be graded."""

    def __init__(self, place: str = "cpu", memory_bytes: int | None = None) -> None:
        """Start with nothing tried; references run on `place`, which has so much memory."""
        self._place = place
        self._memory_bytes = memory_bytes
        self._given: dict[str, dict[str, int]] = {}
        self._kinds: dict[str, Kinds] = {}
        self._known: dict[str, list[str] | ProblemError] = {}

    def notes(self, problem: Problem) -> list[str]:
        """Return what was seen when the problem was tried; Refused where it cannot be graded."""
        known = self._known.get(problem.digest)
        if known is None:
            try:
                known = check_problem(problem, self._place, self._memory_bytes)
            except ProblemError as error:
                known = error
            self._known[problem.digest] = known
        if isinstance(known, ProblemError):
            raise Refused(f"the problem cannot be graded: {known}")
        return known

    def kinds(self, problem: Problem) -> Kinds:
        """Return what is known, and is to be remembered, of the kinds of values it bears."""
        return self._kinds.setdefault(problem.digest, Kinds())

    def given(self, problem: Problem) -> dict[str, int]:
        """Return what is known, and is to be remembered, of how many outputs solutions gave."""
        return self._given.setdefault(problem.digest, {})
