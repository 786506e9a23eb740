"""Lengths of outputs as functions of the axes, found from examples; light."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement

from kernelarc_guard.axes import evaluate

Example = tuple[Mapping[str, int], int]
"""Lengths of the axes, and what the output's length was with them."""


def expression_for(examples: Sequence[Example]) -> str | None:
    """Return the simplest expression of the axes that gives every example's length.

    A number, an axis, a product of axes, or one of these with one number added, multiplied or
    divided by. None where none of them does.
    """
    for candidate in _candidates(examples):
        if all(_value(candidate, axes) == length for axes, length in examples):
            return candidate
    return None


def _value(expression: str, axes: Mapping[str, int]) -> int | None:
    try:
        return evaluate(expression, axes)
    except ValueError:
        return None


def _candidates(examples: Sequence[Example]) -> Iterator[str]:
    axes, length = examples[0]
    names = list(axes)
    varied = len({tuple(one.values()) for one, _ in examples}) > 1
    if varied or not names:
        yield str(length)
    yield from names
    if not varied:
        yield str(length)  # of one example an axis of the same length says more than the number
    products = [
        " * ".join(chosen)
        for count in (2, 3)
        for chosen in combinations_with_replacement(names, count)
    ]
    yield from products
    yield from (f"{one} + {two}" for one, two in combinations_with_replacement(names, 2))
    for base in (*names, *products):
        at = evaluate(base, axes)
        if at and length > at and length % at == 0:
            yield f"{base} * {length // at}"
        if at > length:
            yield f"{base} - {at - length}"
        if length > at:
            yield f"{base} + {length - at}"
        if length:
            for divisor in dict.fromkeys((at // length, -(-at // length))):
                if divisor > 1:
                    yield f"{base} // {divisor}"
                    yield f"({base} + {divisor - 1}) // {divisor}"
