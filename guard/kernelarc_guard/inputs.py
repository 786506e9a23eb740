"""The inputs of one call, made from one seed (imports torch)."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import torch

from kernelarc_guard.definition import Definition, TensorSpec
from kernelarc_guard.draw import draw
from kernelarc_guard.dtypes import stored_shape, torch_dtype
from kernelarc_guard.key_cache import is_packed, packed_keys
from kernelarc_guard.reference import FAILURES, load_reference, one_line
from kernelarc_guard.tensorfile import find_file, load_tensor
from kernelarc_guard.workload import RANDOM, InputSpec, Workload

Scalar = bool | int | float
Value = torch.Tensor | Scalar


class InputError(ValueError):
    """A workload whose inputs cannot be made; one line naming the input."""


def make_inputs(
    definition: Definition,
    workload: Workload,
    seed: int,
    *,
    folder: str | Path | None = None,
    device: str = "cpu",
) -> dict[str, Value]:
    """Make every input in the order of the definition, as a function of `seed` alone.

    `folder` is where files that a workload names are looked for. Raises InputError.
    """
    if any(spec.type == "custom" for spec in workload.inputs.values()):
        return _custom(definition, workload, seed, device)
    generator = torch.Generator(device).manual_seed(seed)
    resolved = definition.resolve(workload.axes)
    made: dict[str, Value] = {}
    for name, spec in definition.inputs.items():
        shape = definition.input_shape(name, resolved)
        source = workload.inputs.get(name, RANDOM)
        try:
            value = _one(definition, name, source, shape, generator, folder)
        except ValueError as error:
            raise InputError(f"input {name}: {error}") from None
        except RuntimeError as error:
            raise InputError(f"input {name}: {one_line(error)}") from None
        made[name] = _checked(name, spec, shape, value, device)
    return made


def redrawn(definition: Definition, workload: Workload) -> bool:
    """Say whether another seed can give other values: some input is random or custom."""
    kinds = {workload.inputs.get(name, RANDOM).type for name in definition.inputs}
    return bool(kinds & {"random", "custom"})


def _one(
    definition: Definition,
    name: str,
    source: InputSpec,
    shape: tuple[int, ...] | None,
    generator: torch.Generator,
    folder: str | Path | None,
) -> Value:
    if source.type == "scalar" and source.value is not None:
        return source.value
    if source.type == "safetensors" and source.path is not None and source.tensor_key is not None:
        if folder is None:
            raise ValueError(f"{source.path}: the problem was not read from a folder")
        return load_tensor(find_file(Path(folder), source.path), source.tensor_key)
    spec = definition.inputs[name]
    if is_packed(definition, name):
        return packed_keys(spec.dtype, shape, generator)
    if shape is None:
        drawn: Scalar = draw(name, spec, (), generator).item()
        return drawn
    value = draw(name, spec, shape, generator)
    if definition.op_type == "sampling" and name == "probs":
        return torch.softmax(value, -1)
    return value


def _custom(definition: Definition, workload: Workload, seed: int, device: str) -> dict[str, Value]:
    entry = definition.custom_inputs_entrypoint
    resolved = definition.resolve(workload.axes)
    with _seeded(seed):
        try:
            function = getattr(load_reference(definition.reference), str(entry))
            made = function(dict(resolved), torch.device(device))
        except FAILURES as error:
            raise InputError(f"{entry}: raised {one_line(error)}") from None
    if not isinstance(made, dict):
        raise InputError(f"{entry}: returned {type(made).__name__}; expected a dict by input name")
    missing = [name for name in definition.inputs if name not in made]
    if missing:  # what it gives beside the inputs is not looked at, as in the format
        got = ", ".join(map(str, made))
        raise InputError(f"{entry}: {missing[0]!r} is missing; it returned {got or 'nothing'}")
    return {
        name: _checked(name, spec, definition.input_shape(name, resolved), made[name], device)
        for name, spec in definition.inputs.items()
    }


def _checked(
    name: str, spec: TensorSpec, shape: tuple[int, ...] | None, value: Any, device: str
) -> Value:
    if shape is None:
        if isinstance(value, torch.Tensor | numpy.generic) and value.ndim == 0:
            value = value.item()  # what some generators give for a number
        if not isinstance(value, bool | int | float):
            raise InputError(f"input {name}: {type(value).__name__}; expected a Python scalar")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InputError(f"input {name}: expected an integer of 64 bits")
        return value
    if shape == () and isinstance(value, bool | int | float):
        value = torch.tensor(value, dtype=torch_dtype(spec.dtype))
    if not isinstance(value, torch.Tensor):
        raise InputError(f"input {name}: {type(value).__name__}; expected a tensor")
    expected = stored_shape(spec, shape)
    # Of packed float4 some problems state the length in memory.
    if tuple(value.shape) not in (expected, shape if spec.dtype.startswith("float4") else expected):
        raise InputError(f"input {name}: shape {list(value.shape)}; expected {list(expected)}")
    if value.dtype is not torch_dtype(spec.dtype):
        raise InputError(f"input {name}: {value.dtype}; expected {spec.dtype}")
    return value.detach().to(device)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed every global generator a problem may draw from; put them back afterwards."""
    saved = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(saved[0])
        numpy.random.set_state(saved[1])
        torch.set_rng_state(saved[2])
