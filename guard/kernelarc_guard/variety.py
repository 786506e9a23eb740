"""Which other values a problem's workloads may be given (imports torch).

A problem whose generator has an axis of its own (one that no shape uses) chooses its distributions
itself: its workloads lend one another their inputs, and nothing is derived.
"""

import secrets
from collections.abc import Iterable, Mapping

import torch

from kernelarc_guard.axes import ExprAxis, axis_names
from kernelarc_guard.definition import Definition
from kernelarc_guard.distributions import GENTLE, changed, kinds_for
from kernelarc_guard.draw import freedom
from kernelarc_guard.dtypes import is_float, torch_dtype
from kernelarc_guard.inputs import Value
from kernelarc_guard.key_cache import is_packed
from kernelarc_guard.problem import Problem
from kernelarc_guard.rewriting import distinct
from kernelarc_guard.workload import RANDOM, Workload


class Variety:
    """What may be tried on each workload of a problem beside its own draws."""

    def __init__(self, problem: Problem, samples: Iterable[dict[str, Value]]) -> None:
        """Look at one sample of every workload's inputs, each once and none of them kept."""
        self._problem = problem
        workloads = problem.workloads
        own_axes = _custom(workloads[0]) and bool(generator_axes(problem.definition))
        free = own_axes and problem.definition.kernelarc.distributions is None
        shapes = []
        self._allowed: list[dict[str, tuple[str, ...]]] = []
        for workload, sample in zip(workloads, samples, strict=True):
            shapes.append(_shapes(sample))
            self._allowed.append({} if free else self._kinds(workload, sample))
        self.siblings = [
            [j for j, other in enumerate(shapes) if own_axes and j != i and other == mine]
            for i, mine in enumerate(shapes)
        ]
        """Workloads of the same shapes, whose draws are legal inputs of this one."""

    def kinds(self, workload: int) -> list[str]:
        """Return the kinds of values that some input of the workload may take."""
        return sorted({kind for kinds in self._allowed[workload].values() for kind in kinds})

    def kinds_of(self, workload: int, name: str) -> tuple[str, ...]:
        """Return the kinds of values that one input of the workload may take."""
        return self._allowed[workload].get(name, ())

    def derive(
        self, workload: int, inputs: Mapping[str, Value], kind: str, keep: frozenset[str]
    ) -> dict[str, Value]:
        """Return the inputs with some of those that may be, none of `keep`, turned into a kind."""
        generator = _generator(inputs)
        able = [
            name
            for name, kinds in self._allowed[workload].items()
            if kind in kinds and name not in keep
        ]
        chosen = {name for name in able if secrets.randbits(1)} or set(able)
        return {
            name: changed(value, kind, generator)
            if name in chosen and isinstance(value, torch.Tensor)
            else value
            for name, value in inputs.items()
        }

    def _kinds(self, workload: Workload, sample: dict[str, Value]) -> dict[str, tuple[str, ...]]:
        definition = self._problem.definition
        said = definition.kernelarc.distributions
        tied = any(not is_float(torch_dtype(spec.dtype)) for spec in definition.outputs.values())
        allowed: dict[str, tuple[str, ...]] = {}
        for name, value in sample.items():
            if not isinstance(value, torch.Tensor):
                continue
            source = workload.inputs.get(name, RANDOM).type
            if isinstance(said, dict):
                allowed[name] = tuple(said.get(name, ()))
            elif said is not None:
                allowed[name] = tuple(said) if is_float(value.dtype) else ()
            elif source == "custom":
                allowed[name] = GENTLE if _looks_free(value) else ()
            elif source == "random" and not is_float(value.dtype):
                # Packed float4 has no order to skew, masks of bool have a meaning.
                plain = value.dtype in (torch.int8, torch.int16, torch.int32, torch.int64)
                plain = plain and not is_packed(definition, name)
                allowed[name] = ("edge",) if plain and not tied else ()
            elif source == "random":
                spec = definition.inputs[name]
                probabilities = definition.op_type == "sampling" and name == "probs"
                free = freedom(name, spec, tuple(value.shape))
                allowed[name] = () if probabilities else kinds_for(free, tied)
        return allowed


def generator_axes(definition: Definition) -> list[str]:
    """Return the var axes that no shape depends on: choices of the problem's own generator."""
    used = {
        extent
        for spec in (*definition.inputs.values(), *definition.outputs.values())
        for extent in spec.shape or []
    }
    for name, axis in reversed(definition.axes.items()):
        if isinstance(axis, ExprAxis) and name in used:
            used |= axis_names(axis.expression)
    return [name for name in definition.var_axes() if name not in used]


def _custom(workload: Workload) -> bool:
    return any(spec.type == "custom" for spec in workload.inputs.values())


def _generator(inputs: Mapping[str, Value]) -> torch.Generator:
    """Return a seeded generator where the inputs are."""
    places = [one.device for one in inputs.values() if isinstance(one, torch.Tensor)]
    return torch.Generator(places[0] if places else "cpu").manual_seed(secrets.randbits(63))


def _shapes(sample: dict[str, Value]) -> list[tuple[str, tuple[int, ...] | None]]:
    return [
        (name, tuple(value.shape) if isinstance(value, torch.Tensor) else None)
        for name, value in sample.items()
    ]


def _looks_free(tensor: torch.Tensor) -> bool:
    """Say whether values look drawn from many of both signs, not like masks or probabilities."""
    if not is_float(tensor.dtype) or tensor.numel() < 8:
        return False
    flat = tensor.reshape(-1)[:4096].to(torch.float64)
    many = distinct(flat) > flat.numel() // 2
    return bool(flat.isfinite().all()) and many and bool((flat < 0).any() and (flat > 0).any())
