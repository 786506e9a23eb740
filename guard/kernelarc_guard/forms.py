"""What is compared where equal outputs are the wrong test: the form of an answer (imports torch).

Indices of equal scores may be any of them, and samples differ from call to call. A form turns the
outputs of one call, with its inputs, into tensors that must agree; what a solution gives is hostile, so
a form that fails on it finds it wrong.
"""

from collections.abc import Callable, Mapping
from typing import Final

import torch

from kernelarc_guard.chosen_keys import chooses_keys, chosen_scores
from kernelarc_guard.definition import Definition, TensorSpec, TopK
from kernelarc_guard.inputs import Value
from kernelarc_guard.reference import FAILURES, load_reference, one_line
from kernelarc_guard.sampling import Sampling

Outputs = Mapping[str, torch.Tensor]
Turn = Callable[[Mapping[str, Value], Outputs], dict[str, torch.Tensor]]
_LEGAL: Final = "legal"


class FormError(ValueError):
    """An answer that has no form: what raised, on one line."""


class Form:
    """How answers to one problem are compared."""

    def __init__(
        self, definition: Definition, turn: Turn, sampling: Sampling | None = None
    ) -> None:
        """Keep the function that makes the form; `sampling` where answers are random."""
        self._definition = definition
        self._turn = turn
        self.sampling = sampling

    def of(self, inputs: Mapping[str, Value], outputs: Outputs) -> dict[str, torch.Tensor]:
        """Return the tensors to compare for outputs of one call; raises FormError."""
        given = {name: _copy(value) for name, value in inputs.items()}
        try:
            made = self._turn(given, {name: one.clone() for name, one in outputs.items()})
        except FAILURES as error:
            raise FormError(f"compared_as: raised {one_line(error)}") from None
        if not isinstance(made, dict) or not made:
            raise FormError("compared_as: expected a dict of tensors by name")
        for name, one in made.items():
            if not isinstance(one, torch.Tensor):
                raise FormError(f"compared_as: {name} is a {type(one).__name__}; expected a tensor")
        return made

    def definition(self, names: list[str]) -> Definition:
        """Return the definition under which tensors of these names are compared."""
        outputs = {
            name: self._definition.outputs.get(name, TensorSpec(shape=[], dtype="int64"))
            for name in names
        }
        return self._definition.model_copy(update={"outputs": outputs})


def form_of(definition: Definition) -> Form | None:
    """Return the form that a definition asks for, None where outputs themselves are compared.

    Definitions of FlashInfer-Bench ask for one by their op_type or name. Raises FormError.
    """
    asked = definition.kernelarc.compared_as
    if asked is None:
        if chooses_keys(definition):
            return Form(definition, chosen_scores)
        sampling = Sampling.of(definition) if definition.op_type == "sampling" else None
        return Form(definition, sampling.legal, sampling) if sampling is not None else None
    if isinstance(asked, TopK):
        return Form(definition, _TopKForm(asked))
    if asked == "sampling":
        sampling = Sampling.of(definition)
        if sampling is None:
            raise FormError(
                "compared_as: sampling expects the input probs [.., vocabulary] and one output of "
                "integers"
            )
        return Form(definition, sampling.legal, sampling)
    try:
        turn = getattr(load_reference(definition.reference), asked)
    except FAILURES as error:
        raise FormError(f"compared_as: {one_line(error)}") from None
    return Form(definition, turn)


class _TopKForm:
    """The largest of each row: which they are is open where scores are equal."""

    def __init__(self, asked: TopK) -> None:
        self._asked = asked

    def __call__(self, inputs: Mapping[str, Value], outputs: Outputs) -> dict[str, torch.Tensor]:
        asked = self._asked
        indices, scores = outputs[asked.indices].to(torch.int64), inputs[asked.of]
        assert isinstance(scores, torch.Tensor)
        length = scores.shape[-1]
        inside = (indices >= 0) & (indices < length)
        padding = indices == -1 if asked.padding else torch.zeros_like(inside)
        safe = torch.where(inside, indices, 0)
        chosen = scores.gather(-1, safe).to(torch.float64)
        chosen = torch.where(padding, -torch.inf, chosen)
        ordered = indices.sort(-1).values
        twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)
        legal = (inside | padding).all(-1) & ~twice.any(-1)
        form = {name: one for name, one in outputs.items() if name != asked.indices}
        values = form.get(asked.values) if asked.values else None
        if not asked.ordered:
            if values is not None:
                # Each value must be its own index's before both are put in order.
                apart = (values.to(torch.float64) - chosen).nan_to_num(nan=0.0)
                form["apart"] = apart.to(values.dtype)
                form[str(asked.values)] = values.sort(-1, descending=True).values
            chosen = chosen.sort(-1, descending=True).values
        form["scores"] = chosen.to(scores.dtype)
        form[_LEGAL] = legal.to(torch.int64)
        return form


def _copy(value: Value) -> Value:
    return value.clone() if isinstance(value, torch.Tensor) else value
