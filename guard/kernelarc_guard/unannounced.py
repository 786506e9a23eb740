"""Calls of another sort among the timed ones: which comes next (imports torch).

What is honest in correctness and looks at a sample of its inputs afterwards must meet what the sample does
not show. Sorts are dealt from a shuffled deck, so that so many calls contain so many of each, in an
order that nobody knows: drawn one by one, a sort may fail to come up in a whole confirmation.
"""

import secrets
from collections.abc import Iterator
from typing import Literal, Protocol

from kernelarc_guard.constants import equal_inputs
from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.rewriting import Part

_Sort = Literal["renewed", "part", "spiked", "other"]
_DECK: dict[_Sort, int] = {"renewed": 2, "part": 2, "spiked": 4, "other": 4}


Call = tuple[Draw | None, bool]


class Referee(Protocol):
    """Who knows what a problem's reference bears."""

    def other(self, workload: int) -> Draw | None:
        """Return a workload's inputs of another distribution, None without one."""

    def legal(self, workload: int, draw: Draw) -> bool:
        """Say whether the reference bears a draw."""


class Unannounced:
    """Deals the calls of another sort of one comparison, each workload's from a deck of its own."""

    def __init__(self, drawer: Drawer) -> None:
        """Take where draws come from."""
        self._drawer = drawer
        self._decks: dict[int, list[_Sort]] = {}
        self._spikable: dict[int, list[str]] = {}

    def calls(self, bench: Referee, workload: int, before: Draw | None) -> Iterator[Call]:
        """Yield inputs of another sort, None for own ones, and whether objects are to be new.

        `before` is the last draw of the workload's own values. Where static inputs were changed, a
        call on own values follows: what a solution keeps of them is made again there, not in a
        timed call.
        """
        yield self._one(bench, workload, before)
        if self._drawer.unsettled(workload):
            yield None, False

    def _one(self, bench: Referee, workload: int, before: Draw | None) -> Call:
        sort = self._dealt(workload)
        if sort == "renewed":
            return None, True
        draw: Draw | None = None
        if sort == "part" and before is not None:
            part: Part = "rows" if secrets.randbits(1) else "elements"
            draw = self._drawer.part(workload, before, part)
        elif sort == "spiked":
            draw = self._spiked(bench, workload)
        return draw or bench.other(workload), False

    def _dealt(self, workload: int) -> _Sort:
        deck = self._decks.setdefault(workload, [])
        if not deck:
            deck += [sort for sort, count in _DECK.items() for _ in range(count)]
            secrets.SystemRandom().shuffle(deck)
        return deck.pop()

    def _spiked(self, bench: Referee, workload: int) -> Draw | None:
        """Return a draw with a few elements of one input far from usual, None where none may be."""
        names = self._spikable.get(workload)
        if names is None:
            names = self._spikable[workload] = self._find_spikable(workload)
        if not names:
            return None
        draw = self._drawer.spiked(workload, secrets.choice(names))
        return draw if bench.legal(workload, draw) else None

    def _find_spikable(self, workload: int) -> list[str]:
        """Return the inputs that may have spikes; only the steady ones where there are any.

        A guess from a sample pays on what is usually the same: constant inputs and static ones.
        """
        drawer = self._drawer
        first, second = drawer.draw(workload).inputs, drawer.draw(workload).inputs
        names = [n for n in first if "spiked" in drawer.variety.kinds_of(workload, n)]
        steady = [
            n for n in names if n in drawer.static or equal_inputs({n: first[n]}, {n: second[n]})
        ]
        return steady or names
