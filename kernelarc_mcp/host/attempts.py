"""The submissions of a campaign by ticket; those that have their verdict are kept small."""

import pickle
import zlib
from collections.abc import Iterator, MutableMapping, ValuesView
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelarc_mcp.host.state import Attempt


class Attempts(MutableMapping[str, "Attempt"]):
    """A dictionary in the order of submission.

    A submission without verdict is one object. What is kept of a settled one is compressed, and each
    look makes a new object of it: after changing that, `keep` it.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._all: dict[str, Attempt | bytes] = {}
        self._like = b""
        """One of them, pickled: others are much like it, which makes them short."""

    def keep(self, attempt: "Attempt") -> None:
        """Keep a submission as it is now; compressed where it has its verdict."""
        self._all[attempt.ticket] = self._packed(attempt) if attempt.state == "done" else attempt

    def __getitem__(self, ticket: str) -> "Attempt":
        found = self._all[ticket]
        return self._unpacked(found) if isinstance(found, bytes) else found

    def __setitem__(self, ticket: str, attempt: "Attempt") -> None:
        if ticket != attempt.ticket:
            raise ValueError(f"{attempt.ticket} is not {ticket}")
        self.keep(attempt)

    def __delitem__(self, ticket: str) -> None:
        del self._all[ticket]

    def __contains__(self, ticket: object) -> bool:
        return ticket in self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def values(self) -> "_Values":
        """Return the submissions, in order or reversed."""
        return _Values(self)

    def _packed(self, attempt: "Attempt") -> bytes:
        plain = pickle.dumps(attempt, protocol=pickle.HIGHEST_PROTOCOL)
        if not self._like:
            self._like = plain
        squeeze = zlib.compressobj(level=1, zdict=self._like)
        return squeeze.compress(plain) + squeeze.flush()

    def _unpacked(self, packed: bytes) -> "Attempt":
        attempt: Attempt = pickle.loads(zlib.decompressobj(zdict=self._like).decompress(packed))
        return attempt


class _Values(ValuesView["Attempt"]):
    """All submissions; unlike those of other mappings they can be gone through backwards."""

    _mapping: Attempts

    def __reversed__(self) -> Iterator["Attempt"]:
        return (self._mapping[ticket] for ticket in reversed(self._mapping))
