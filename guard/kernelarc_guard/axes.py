"""Axes of a problem and the arithmetic between them; light."""

import ast
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from kernelarc_guard import pyast
from kernelarc_guard.model import Model

MAX_EXTENT: Final = 2**48
"""No axis is longer: beyond it an expression is a mistake or an attack."""
_MAX_EXPRESSION: Final = 500
_MAX_EXPONENT: Final = 64

Extent = Annotated[int, Field(strict=True, ge=0, le=MAX_EXTENT)]


class _Described(Model):
    description: str = ""

    @field_validator("description", mode="before")
    @classmethod
    def _no_null(cls, value: object) -> object:
        return "" if value is None else value


class ConstAxis(_Described):
    """An axis with one length in every workload."""

    type: Literal["const"]
    value: Extent


class VarAxis(_Described):
    """An axis whose length each workload states."""

    type: Literal["var"]


class ExprAxis(_Described):
    """An axis computed from the axes before it."""

    type: Literal["expr"]
    expression: str = Field(min_length=1, max_length=_MAX_EXPRESSION)


Axis = Annotated[ConstAxis | VarAxis | ExprAxis, Field(discriminator="type")]


def axis_names(expression: str) -> set[str]:
    """Return the axis names an expression uses; ValueError where it is more than arithmetic."""
    return {node.id for node in ast.walk(_parsed(expression)) if isinstance(node, ast.Name)}


def evaluate(expression: str, axes: Mapping[str, int]) -> int:
    """Evaluate an axis expression to a length.

    Numbers, axis names, ``+ - * / // % **``, signs and parentheses. ValueError says what else was
    found, which axis is unknown, or why the value is no length.
    """
    try:
        value = _value(_parsed(expression), axes)
    except ArithmeticError as error:
        raise ValueError(f"{expression!r} cannot be computed: {error}") from None
    except RecursionError:
        raise ValueError(f"{expression!r} is nested too deeply") from None
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{expression!r} is {value}, not a whole number")
        value = int(value)
    if not 0 <= value <= MAX_EXTENT:
        raise ValueError(f"{expression!r} is {value}, expected 0 to {MAX_EXTENT}")
    return value


def _parsed(expression: str) -> ast.expr:
    try:
        read = pyast.tree_of(expression.strip(), "eval")
        assert isinstance(read, ast.Expression)
        tree = read.body
        for node in ast.walk(tree):
            _check(node, expression)
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        if type(error) is ValueError:
            raise
        raise ValueError(f"{expression!r} is not an arithmetic expression") from None
    return tree


_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def _check(node: ast.AST, expression: str) -> None:
    if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Name | ast.Load | ast.UAdd | ast.USub):
        return
    if isinstance(node, _ARITHMETIC):
        return
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return
    raise ValueError(
        f"{expression!r} uses {type(node).__name__}; "
        "expected numbers, axis names, + - * / // % ** and parentheses"
    )


def _value(node: ast.expr, axes: Mapping[str, int]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in axes:
            raise ValueError(f"axis {node.id!r} is not known here")
        return axes[node.id]
    if isinstance(node, ast.UnaryOp):
        operand = _value(node.operand, axes)
        return -operand if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp):
        value = _binary(node.op, _value(node.left, axes), _value(node.right, axes))
        if abs(value) > MAX_EXTENT**2:
            raise OverflowError("an intermediate value is too large")
        return value
    raise ValueError(f"{type(node).__name__} is not arithmetic")


def _binary(op: ast.operator, left: float, right: float) -> float:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.FloorDiv():
            return left // right
        case ast.Mod():
            return left % right
        case ast.Pow():
            if abs(right) > _MAX_EXPONENT:
                raise OverflowError(f"an exponent is larger than {_MAX_EXPONENT}")
            value = left**right
            if isinstance(value, complex):
                raise ArithmeticError("a power is not a real number")  # e.g. (-1) ** 0.5
            return float(value) if isinstance(value, float) else int(value)
    raise ValueError(f"{type(op).__name__} is not arithmetic")
