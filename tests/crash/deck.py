"""Which statements are next: those at which nothing was killed yet, then any, by a seed."""

import random
from collections.abc import Iterable
from typing import Final

from crash.ledger_runs import CLIENT_KINDS
from crash.points import COMMIT, COMMITTED, Point

_FIRST: Final = CLIENT_KINDS | {
    *("recover", "claim", "screened", "stake", "confirmed", "interrupted"),
}
"""What charges, stakes and settles. Others may be opened once in a campaign only, and not again."""


class Deck:
    """The points of a catalogue of transactions and their numbers of statements."""

    def __init__(
        self, catalogue: dict[str, int], covered: Iterable[tuple[str, int]], seed: int
    ) -> None:
        """Leave what is `covered`, as transaction and statement, for last."""
        self._choice = random.Random(seed)
        every = sorted(
            (kind, n)
            for kind, last in catalogue.items()
            for n in (*range(1, last + 1), COMMIT, COMMITTED)
        )
        self._choice.shuffle(every)
        seen = set(covered)
        self._every = every
        self._next = [one for one in every if one[0] in _FIRST and one not in seen]

    def point(self, of_client: bool) -> Point:
        """Return the next point of a client, or of a dispatcher."""
        fits = [one for one in self._next if (one[0] in CLIENT_KINDS) == of_client]
        if fits:
            kind, statement = fits[0]
            self._next.remove(fits[0])
            return Point(kind, statement)
        fits = [one for one in self._every if (one[0] in CLIENT_KINDS) == of_client]
        kind, statement = self._choice.choice(fits)
        return Point(kind, statement, self._choice.choice((1, 1, 2)))
