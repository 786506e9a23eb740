"""What the device needs to take turns between two contexts, which every window holds; light."""

from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Final

_REMEMBERED: Final = 15
_SMALLEST_NS: Final = 740
"""What the kernel that these windows hold takes itself, by CUPTI, with cold caches."""
_FEW: Final = 8
_EVERY: Final = 8
"""With so few rulers known every pair has one, later one in so many."""
_UNLIKE_NS: Final = 5_000
"""What differs by more than this is no change of contexts."""
_TRIES: Final = 6
"""So often a runner that has just started is measured before it counts as disturbed for good."""


class Disturbed(Exception):
    """Something else than the guard and the runner was at work on the device, as often as was looked."""


class Turns:
    """What windows around the smallest kernel took in the last runners; nanoseconds."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._before: deque[int] = deque(maxlen=_REMEMBERED)
        self._beside: deque[int] = deque(maxlen=_REMEMBERED)
        """How much longer than in the same runner before."""
        self._pairs = 0
        self._problem = ""

    def begin(self, problem: str) -> None:
        """Forget rulers of another problem: theirs read up to a microsecond more or less."""
        if problem != self._problem:
            self._problem = problem
            self._beside.clear()

    @property
    def usual_ns(self) -> int | None:
        """Return what they take in a runner that has just started, None before the first."""
        return int(median(self._before)) if self._before else None

    def taken_off_ns(self, own: int) -> int:
        """Return what is taken off a runner's window to leave what its kernels take.

        `own` is what they took in this runner before anything of a solution was loaded: from one
        context to another that differs by a microsecond, and stays what it is in each
        (docs/measurements/h200_verdict.md). What windows between calls take beyond that is known
        from rulers.
        """
        later = int(median(self._beside)) if self._beside else 0
        return own + later - _SMALLEST_NS

    def add_before(self, taken: int) -> None:
        """Take note of what they took in a runner that has just started."""
        self._before.append(taken)

    def settle(self, measure: Callable[[], int]) -> int:
        """Measure a runner that has just started until it is like the others; return what it took.

        `measure` is asked again where its answer is unlike, a few times: a neighbour's burst is over
        soon. That is taken note of. Disturbed with all answers where none was like the others'.
        """
        taken: list[int] = []
        while len(taken) < _TRIES:
            own = measure()
            if not self.unlike(own):
                self.add_before(own)
                return own
            taken.append(own)
        told = ", ".join(f"{one / 1e3:.1f}" for one in taken)
        raise Disturbed(
            f"an empty window takes {told} us, measured {len(taken)} times one after the other, "
            f"where it took {(self.usual_ns or 0) / 1e3:.1f} us before: something else is at work "
            "on the device"
        )

    def unlike(self, own: int) -> bool:
        """Say whether what a runner's took is no mere change of contexts."""
        usual = self.usual_ns
        return usual is not None and abs(own - usual) > _UNLIKE_NS

    def add_beside(self, longer: list[int]) -> None:
        """Take note of how much longer they took in a ruler, between the calls of a pair, than before.

        What is unlike that is left out: somebody else had a part in it, and what is taken off must
        not be in a candidate's hands.
        """
        seen = int(median(longer))
        if abs(seen) <= _UNLIKE_NS:
            self._beside.append(seen)

    def wants_ruler(self) -> bool:
        """Count a pair, and say whether it is to have a ruler."""
        self._pairs += 1
        return len(self._beside) < _FEW or self._pairs % _EVERY == 0
