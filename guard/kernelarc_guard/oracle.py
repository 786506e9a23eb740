"""The right answer, computed in the guard and nowhere else (imports torch)."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from kernelarc_guard.definition import Definition
from kernelarc_guard.dtypes import is_float, stored_shape, torch_dtype
from kernelarc_guard.forms import FormError, form_of
from kernelarc_guard.growth import WALKS, Reach, reach, walked, walked_either_way, widest
from kernelarc_guard.inputs import Value
from kernelarc_guard.leeway import NONE, Leeway, leeway_of
from kernelarc_guard.precision import (
    Scales,
    error_scales,
    grown,
    has_scale,
    nudged,
    scale_where_finite,
    widened,
)
from kernelarc_guard.problem import Problem
from kernelarc_guard.reference import FAILURES, load_reference, one_line
from kernelarc_guard.workload import Workload


class OracleError(ValueError):
    """The reference failed or does not keep its own definition; one line."""


@dataclass(frozen=True)
class Answer:
    """What one set of inputs should give."""

    declared: dict[str, torch.Tensor]
    """The reference's outputs in the declared precision."""
    expected: dict[str, torch.Tensor]
    """In float64, as `Oracle.expected` says."""
    scales: Scales
    """How large an honest error is, where float64 could tell; empty where it could not."""
    widen: Callable[[], Scales]
    """Return scales that also know what moving the inputs by roundings does; computed once."""
    leeway: Callable[[], Leeway] = lambda: NONE
    """Return how far an honest float32 kernel may be off in each element; computed once.

    Nothing where float64 could not tell.
    """
    formed: Callable[[Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]] = lambda one: one
    """Turn outputs on these inputs into what is compared with `expected`; raises FormError."""


class Oracle:
    """One problem's reference, loaded once.

    Inputs are copied before every run, so a reference that writes to them changes nothing here.
    """

    def __init__(self, problem: Problem, place: str = "cpu") -> None:
        """Load the reference, whose inputs are on `place`; OracleError where it cannot be."""
        self.place = place
        self.definition: Definition = problem.definition
        self.observations: list[str] = []
        """What was seen about the reference and decided nothing, each once."""
        try:
            self.form = form_of(self.definition)
            """What is compared instead of the outputs; None: they are."""
        except FormError as error:
            raise OracleError(f"kernelarc.{error}") from None
        try:
            self._run = load_reference(self.definition.reference).run
        except FAILURES as error:
            raise OracleError(f"reference: cannot be loaded: {one_line(error)}") from None

    def reference_outputs(
        self, workload: Workload, inputs: Mapping[str, Value]
    ) -> dict[str, torch.Tensor]:
        """Run the reference in the declared precision; outputs have the declared dtypes."""
        outputs = self._outputs(workload, {name: _copy(inputs[name]) for name in inputs})
        for name, spec in self.definition.outputs.items():
            dtype = torch_dtype(spec.dtype)
            if outputs[name].dtype is not dtype:
                self._observe(f"reference: output {name} is {outputs[name].dtype}, not {dtype}")
                outputs[name] = outputs[name].to(dtype)
        return outputs

    def expected(self, workload: Workload, inputs: Mapping[str, Value]) -> dict[str, torch.Tensor]:
        """Run the reference in float64; floating outputs are float64 tensors.

        Integer outputs, and values that are not finite, are those of the declared precision: that
        is what the definition promises. A reference that fails in float64, or a definition whose
        oracle is `declared`, gives the declared precision throughout.
        """
        return self.answer(workload, inputs).expected

    def answer(self, workload: Workload, inputs: Mapping[str, Value]) -> Answer:
        """Run the reference in both precisions, which also tells how large an honest error is.

        On a GPU nothing of it is under way any more: the guard's next work there shows who else is.
        """
        answer = self._answer(workload, inputs)
        if self.place.startswith("cuda"):
            # Without float64 nobody has looked at a value yet, which would have waited.
            torch.cuda.synchronize(self.place)
        return answer

    def _answer(self, workload: Workload, inputs: Mapping[str, Value]) -> Answer:
        declared = self.reference_outputs(workload, inputs)
        exact = self._in_float64(workload, inputs)
        if self.form is not None:
            return self._formed(inputs, declared, exact)
        if exact is None:
            wide = {name: _wide(one) for name, one in declared.items()}
            return Answer(declared, wide, {}, dict)
        expected: dict[str, torch.Tensor] = {}
        scales: Scales = {}
        for name, one in declared.items():
            scale = scale_where_finite(one, exact[name])
            if scale is not None:
                expected[name], scales[name] = _wide(exact[name]), scale
            else:
                expected[name] = _merged(one, exact[name])
                scales |= error_scales({name: one}, expected)
        return Answer(
            declared,
            expected,
            scales,
            cache(lambda: self._widened(workload, inputs, declared, expected, scales)),
            cache(lambda: self._leeway(workload, inputs, expected, list(scales))),
        )

    def _formed(
        self,
        inputs: Mapping[str, Value],
        declared: dict[str, torch.Tensor],
        exact: dict[str, torch.Tensor] | None,
    ) -> Answer:
        """Return an answer whose `expected` is in the problem's form, without scales."""
        form = self.form
        assert form is not None
        best = {
            name: _wide(one) if exact is None else _merged(one, exact[name])
            for name, one in declared.items()
        }
        try:
            expected = form.of(inputs, best)
        except FormError as error:
            raise OracleError(f"kernelarc.{error}, on the reference's own outputs") from None
        return Answer(declared, expected, {}, dict, formed=lambda outputs: form.of(inputs, outputs))

    def compared(self, expected: Mapping[str, torch.Tensor]) -> Definition:
        """Return the definition under which outputs are compared with what is expected."""
        return self.definition if self.form is None else self.form.definition(list(expected))

    def _widened(
        self,
        workload: Workload,
        inputs: Mapping[str, Value],
        declared: dict[str, torch.Tensor],
        expected: dict[str, torch.Tensor],
        scales: Scales,
    ) -> Scales:
        generator = _generator(declared)
        scales = self._nudged(workload, inputs, declared, expected, scales, generator)
        lengths = self._reach(workload, inputs, list(scales))
        if max(lengths.values(), default=1) < 2:
            return scales

        def move(one: torch.Tensor, length: int, turn: int) -> tuple[torch.Tensor, float]:
            return walked(one, length, turn, generator)

        return grown(scales, declared, expected, self._walks(workload, inputs, lengths, move))

    def _leeway(
        self,
        workload: Workload,
        inputs: Mapping[str, Value],
        expected: dict[str, torch.Tensor],
        names: list[str],
    ) -> Leeway:
        generator = _generator(expected)
        lengths = self._reach(workload, inputs, names)
        longest = max(lengths.values(), default=1)

        def move(one: torch.Tensor, length: int, turn: int) -> tuple[torch.Tensor, float]:
            return walked_either_way(one, length, longest, turn, generator)

        return leeway_of(names, expected, self._walks(workload, inputs, lengths, move))

    def _nudged(
        self,
        workload: Workload,
        inputs: Mapping[str, Value],
        declared: dict[str, torch.Tensor],
        expected: dict[str, torch.Tensor],
        scales: Scales,
        generator: torch.Generator,
    ) -> Scales:
        """Move the inputs by a last place, a few times: a stable algorithm does no better.

        By chance the reference can be far more accurate than an algorithm of the same kind, most
        of all where an output is a single sum that cancels.
        """
        narrow = [one.dtype for one in declared.values() if has_scale(one.dtype)]
        eps = max((torch.finfo(dtype).eps for dtype in narrow), default=0.0)
        for _ in range(_NUDGES):
            moved = {name: _nudged(one, eps, generator) for name, one in inputs.items()}
            try:
                outputs = self._outputs(workload, moved)
            except OracleError:
                break  # the reference does not like such inputs: the scales stay as they are
            scales = widened(scales, expected, outputs)
        return scales

    def _walks(
        self,
        workload: Workload,
        inputs: Mapping[str, Value],
        lengths: Reach,
        move: Callable[[torch.Tensor, int, int], tuple[torch.Tensor, float]],
    ) -> Iterator[tuple[dict[str, torch.Tensor], float]]:
        """Yield answers to inputs moved as adding one after the other moves them, and how far.

        `move` takes a tensor, how many of its elements are added, and which time it is.
        """
        for turn in range(WALKS):
            moved: dict[str, Value] = {}
            far = 0.0
            for name, value in inputs.items():
                if name in lengths and isinstance(value, torch.Tensor):
                    moved[name], one = move(value, lengths[name], turn)
                    far = max(far, one)
                else:
                    moved[name] = _copy(value)
            try:
                yield self._outputs(workload, moved), far
            except OracleError:
                return  # the reference does not like such inputs

    def _reach(self, workload: Workload, inputs: Mapping[str, Value], names: list[str]) -> Reach:
        tensors = {
            name: value.to(torch.float64)
            for name, value in inputs.items()
            if isinstance(value, torch.Tensor) and is_float(value.dtype)
        }

        def run(leaves: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
            others = {n: _copy(value) for n, value in inputs.items() if n not in leaves}
            outputs = self._outputs(workload, {**others, **leaves}, differentiate=True)
            return [outputs[name] for name in names]

        try:
            lengths = reach(run, tensors)
        except (OracleError, RuntimeError):
            lengths = {}
        # A reference may also hide what it depends on: behind no_grad, or by rounding.
        return lengths if any(lengths.values()) else widest(tensors)

    def _in_float64(
        self, workload: Workload, inputs: Mapping[str, Value]
    ) -> dict[str, torch.Tensor] | None:
        if self.definition.kernelarc.oracle == "declared":
            return None
        try:
            return self._outputs(workload, {name: _double(inputs[name]) for name in inputs})
        except OracleError as error:
            self._observe(f"oracle in declared precision, float64 failed: {error}")
            return None

    def _outputs(
        self, workload: Workload, inputs: Mapping[str, Value], *, differentiate: bool = False
    ) -> dict[str, torch.Tensor]:
        arguments = [inputs[name] for name in self.definition.inputs]
        try:
            with torch.set_grad_enabled(differentiate):
                returned = self._run(*arguments)
        except FAILURES as error:
            raise OracleError(f"reference: raised {one_line(error)}") from None
        by_name = _by_name(returned, self.definition)
        if not differentiate:
            by_name = {name: tensor.detach() for name, tensor in by_name.items()}
        resolved = self.definition.resolve(workload.axes)
        for name, tensor in by_name.items():
            shape = self.definition.output_shape(name, resolved) or ()
            shape = stored_shape(self.definition.outputs[name], shape)
            if tuple(tensor.shape) != shape:
                raise OracleError(
                    f"reference: output {name} has shape {list(tensor.shape)}; "
                    f"the definition says {list(shape)}"
                )
        return by_name

    def _observe(self, line: str) -> None:
        if line not in self.observations:
            self.observations.append(line)


_NUDGES = 3


def _by_name(returned: Any, definition: Definition) -> dict[str, torch.Tensor]:
    names = list(definition.outputs)
    if isinstance(returned, dict):
        if set(returned) != set(names):
            raise OracleError(
                f"reference: returned {', '.join(map(str, returned))}; expected {', '.join(names)}"
            )
        values = [returned[name] for name in names]
    elif isinstance(returned, tuple | list):
        values = list(returned)
    else:
        values = [returned]
    if len(values) != len(names):
        raise OracleError(f"reference: returned {len(values)} outputs; expected {len(names)}")
    return {
        name: _as_tensor(name, value, definition) for name, value in zip(names, values, strict=True)
    }


def _as_tensor(name: str, value: Any, definition: Definition) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, bool | int | float):
        return torch.tensor(value, dtype=torch_dtype(definition.outputs[name].dtype))
    raise OracleError(f"reference: output {name} is a {type(value).__name__}; expected a tensor")


def _generator(beside: Mapping[str, torch.Tensor]) -> torch.Generator:
    """Return a generator where the tensors are, the same every time."""
    places = [one.device for one in beside.values()]
    return torch.Generator(places[0] if places else "cpu").manual_seed(0)


def _copy(value: Value) -> Value:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _double(value: Value) -> Value:
    if isinstance(value, torch.Tensor) and is_float(value.dtype):
        # A float64 input would be handed over as it is, and the reference may write to it.
        return value.to(torch.float64, copy=True)
    return _copy(value)


def _nudged(value: Value, eps: float, generator: torch.Generator) -> Value:
    if isinstance(value, torch.Tensor) and is_float(value.dtype):
        return nudged(value, eps, generator)
    return _copy(value)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64) if is_float(tensor.dtype) else tensor


def _merged(declared: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    if not is_float(declared.dtype) or not is_float(exact.dtype):
        return _wide(declared)
    exact = exact.to(torch.float64)
    # A sum is finite only if all its terms are: cheaper than looking at each in the usual case.
    if math.isfinite(float(declared.sum(dtype=torch.float64) + exact.sum())):
        return exact
    wide = declared.to(torch.float64)
    return torch.where(torch.isfinite(wide) & torch.isfinite(exact), exact, wide)
