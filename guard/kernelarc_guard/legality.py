"""Whether a draw of another kind may be used, and which kinds a workload never bears (imports torch).

A solution is judged by the workload's tolerance there too, so the reference must keep well inside it: within a
quarter of what the rounding of the outputs to their own type leaves. That rounding is the same for everybody; with
16-bit outputs it alone can be more than a quarter of a usual tolerance.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import torch

from kernelarc_guard.dtypes import all_finite
from kernelarc_guard.forms import FormError
from kernelarc_guard.oracle import Answer, Oracle
from kernelarc_guard.precision import has_scale
from kernelarc_guard.tolerance import compare
from kernelarc_guard.workload import Tolerance

_SHARE: Final = 0.25
_NARROW: Final = 2
"""Bytes of an element."""
_GIVEN_UP: Final = 8
"""A kind is given up when so many draws were made of it and none was legal."""


@dataclass
class Kinds:
    """How many draws of each kind a problem's workloads were given, and how many were legal."""

    _drawn: dict[tuple[int, str], int] = field(default_factory=dict)
    _legal: set[tuple[int, str]] = field(default_factory=set)

    def count(self, workload: int, kind: str, legal: bool) -> None:
        """Remember a draw."""
        one = (workload, kind)
        self._drawn[one] = self._drawn.get(one, 0) + 1
        if legal:
            self._legal.add(one)

    def given_up(self, workload: int, kind: str) -> bool:
        """Say whether a kind is not drawn any more on a workload."""
        one = (workload, kind)
        return one not in self._legal and self._drawn.get(one, 0) >= _GIVEN_UP

    def lost(self, workload: int) -> list[str]:
        """Return the kinds that were given up on a workload."""
        return sorted(k for w, k in self._drawn if w == workload and self.given_up(w, k))


def is_legal(oracle: Oracle, answer: Answer, tolerance: Tolerance) -> bool:
    """Say whether the reference is finite on a draw and near enough to float64."""
    finite = all(all_finite(one) for one in answer.declared.values())
    if not finite and not oracle.definition.kernelarc.nonfinite_outputs:
        return False
    try:
        declared = answer.formed(answer.declared)
    except FormError:
        return False
    definition = oracle.compared(answer.expected)

    def near(names: Iterable[str], within: Tolerance) -> bool:
        one, other = (
            {name: side[name] if name in names else side[name].new_empty(0) for name in declared}
            for side in (declared, answer.expected)
        )
        return compare(one, other, within, definition, refuse_zeros=False).ok

    if oracle.form is not None:
        return near(declared, _share(tolerance, 0.0))
    return all(
        near([name], _share(tolerance, _rounding(one.dtype))) for name, one in declared.items()
    )


def _rounding(dtype: torch.dtype) -> float:
    """Return how much of a value its own rounding may be, for outputs of 16 bits and fewer."""
    narrow = has_scale(dtype) and dtype.itemsize <= _NARROW
    return torch.finfo(dtype).eps / 2 if narrow else 0.0


def _share(tolerance: Tolerance, rounding: float) -> Tolerance:
    """Return what the reference may be off: the rounding, and its share of what that leaves."""
    rounding = min(rounding, tolerance.max_rtol)
    return tolerance.model_copy(
        update={
            "max_atol": tolerance.max_atol * _SHARE,
            "max_rtol": rounding + (tolerance.max_rtol - rounding) * _SHARE,
        }
    )
