"""What the device needs to take turns between two contexts, which every window holds; light."""

from collections import deque
from statistics import median
from typing import Final

_REMEMBERED: Final = 15
_SMALLEST_NS: Final = 740
"""What the kernel that these windows hold takes itself, by CUPTI, with cold caches."""
_FEW: Final = 8
_EVERY: Final = 8
"""With so few rulers known every pair has one, later one in so many."""
_UNLIKE_NS: Final = 5_000
"""More than this from what runners have that just started is no change of contexts."""


class Turns:
    """What windows around the smallest kernel took in the last runners; medians, nanoseconds."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._before: deque[int] = deque(maxlen=_REMEMBERED)
        self._beside: deque[int] = deque(maxlen=_REMEMBERED)
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

    @property
    def taken_off_ns(self) -> int:
        """Return what is taken off a window to leave what its kernels take.

        That is one number for all runners: what their own calls differ by does not show in their
        empty windows. Those of runners that have just started are longer, by up to 2 us, than
        those between calls (docs/measurements/h200_agreement.md); they only do where none of the
        others was measured.
        """
        known = self._beside or self._before
        return int(median(known)) - _SMALLEST_NS if known else 0

    def add_before(self, taken: int) -> None:
        """Take note of what they took in a runner that has just started."""
        self._before.append(taken)

    def add_beside(self, taken: list[int]) -> None:
        """Take note of what they took in a ruler, between the calls of a pair.

        What is unlike that of runners that have just started is left out: somebody else had a part
        in it, and what is taken off must not be in a candidate's hands.
        """
        seen, usual = int(median(taken)), self.usual_ns
        if usual is None or abs(seen - usual) <= _UNLIKE_NS:
            self._beside.append(seen)

    def wants_ruler(self) -> bool:
        """Count a pair, and say whether it is to have a ruler."""
        self._pairs += 1
        return len(self._beside) < _FEW or self._pairs % _EVERY == 0
