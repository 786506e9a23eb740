"""How many outputs each value-returning solution gives, where some of them may be left out; light."""

from collections.abc import Mapping
from itertools import islice
from typing import Final, TypeVar

from kernelarc_guard.definition import Definition
from kernelarc_guard.faults import SolutionFault

_Spec = TypeVar("_Spec")
MOST_KNOWN: Final = 100_000
"""Solutions that are remembered; nobody submits so many."""


class OutputCounts:
    """Holds each solution to what its first call gave: an optional output comes always or never.

    `known` maps a solution's digest to its number of outputs; a guard keeps it for its life, so that
    neither a later process of a solution nor a later judgement of it may change its mind.
    """

    def __init__(self, definition: Definition, known: dict[str, int] | None = None) -> None:
        """Know nothing of any solution yet, or what `known` holds."""
        self._names = list(definition.outputs)
        self._least = len(definition.required_outputs)
        self.known = {} if known is None else known

    def given(
        self, specs: Mapping[str, _Spec], count: int, digest: str, workload: int
    ) -> dict[str, _Spec]:
        """Return the specs of the outputs that a call which returned `count` values gave.

        Raises SolutionFault where that is no number the problem allows, or not the solution's own.
        """
        most = len(self._names)
        if self._least == most:
            expected = str(most)
        else:
            expected = f"{self._least} to {most} ({', '.join(self._names[self._least :])} optional)"
        if not self._least <= count <= most:
            raise SolutionFault(
                "bad_output_count", f"returned {count} outputs; expected {expected}", workload
            )
        if self._least < most:
            first = self.known.get(digest)
            if first is None and len(self.known) < MOST_KNOWN:
                first = self.known[digest] = count
            if count != first:
                raise SolutionFault(
                    "bad_output_count",
                    f"returned {count} outputs where it has returned {first} before; an optional"
                    " output is given by every call of a solution or by none",
                    workload,
                )
        return dict(islice(specs.items(), count))
