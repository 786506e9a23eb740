"""A problem made of a function: its parameters are the inputs, its outputs are tried (imports torch)."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from kernelarc_guard import pyast
from kernelarc_guard.definition import DTYPES, TensorSpec
from kernelarc_guard.draw import draw
from kernelarc_guard.dtypes import stored_shape, torch_dtype
from kernelarc_guard.formats.authored import Request, Scalar
from kernelarc_guard.formats.documents import Document, Documents
from kernelarc_guard.formats.module_source import Found, NotUsable, parameters
from kernelarc_guard.formats.outputs import Output, described
from kernelarc_guard.formats.shape_algebra import Example, expression_for
from kernelarc_guard.reference import FAILURES, load_reference, one_line

_MOST_ELEMENTS: Final = 1 << 28
"""Largest tensor that is made only to learn what shape comes out."""


def from_function(found: Found, request: Request, notes: list[str]) -> Documents:
    """Return the problem of a function; NotUsable says in one line what is missing or wrong."""
    function = found.get(found.name)
    if not callable(function):
        raise NotUsable(f"--from {request.source}: {found.name!r} is not a function")
    inputs = _inputs(function, request)
    axes = _axes(request, inputs)
    workloads = request.axes or [{}]
    reference = _reference(found, request, inputs)
    run = _loaded(reference)
    tried = _tried(_Trial(run, inputs, request.scalars), workloads, notes)
    outputs, expressions = _outputs(tried, list(inputs), notes)
    document: Document = {
        "name": request.name or found.label,
        "op_type": request.op_type or "other",
        "description": (getattr(function, "__doc__", None) or "").strip().partition("\n")[0],
        "axes": {
            **{name: {"type": "var"} for name in axes},
            **{name: {"type": "expr", "expression": text} for name, text in expressions.items()},
        },
        "inputs": inputs,
        "outputs": outputs,
        "reference": reference,
    }
    if request.draw:
        document["custom_inputs_entrypoint"] = request.draw
    return Documents(document, [_workload(one, inputs, request) for one in workloads])


def _inputs(function: Any, request: Request) -> dict[str, Document]:
    """Return the inputs in the order of the call."""
    given = [*request.shapes, *request.scalars, *request.constants]
    known = parameters(function)
    names = given if known is None else [one.name for one in known]
    for name in given:
        if name not in names:
            raise NotUsable(f"{name!r} is no parameter; expected {', '.join(names) or 'none'}")
        if given.count(name) > 1:
            raise NotUsable(f"{name!r} is given twice, as a shape and as a number")
    for one in known or []:
        if one.name not in given and one.default is one.empty:
            raise NotUsable(
                f"parameter {one.name!r} has no --shape, no --scalar and no --constant; give one, such "
                f"as `--shape {one.name}=ROWS,1024`, `--scalar {one.name}=1e-6` or `--constant "
                f"{one.name}=-1`"
            )
    if not request.shapes:
        raise NotUsable("--shape: expected the shape of at least one tensor, as NAME=ROWS,1024")
    for name in request.dtypes:
        if name != "*" and name not in request.shapes:
            raise NotUsable(f"--dtype {name}: is no tensor; expected {', '.join(request.shapes)}")
    inputs: dict[str, Document] = {}
    for name in names:
        if name in request.shapes:
            dtype = request.dtypes.get(name, request.dtypes.get("*", "float32"))
            if dtype not in DTYPES:
                raise NotUsable(f"--dtype {name}: {dtype!r}; expected one of {', '.join(DTYPES)}")
            inputs[name] = {"shape": request.shapes[name], "dtype": dtype}
        elif name in request.scalars:
            inputs[name] = {"shape": None, "dtype": _scalar_dtype(request.scalars[name])}
    return inputs


def _scalar_dtype(value: object) -> str:
    return "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"


def _axes(request: Request, inputs: Mapping[str, Document]) -> list[str]:
    """Return the axes that shapes name, each of which every workload must state."""
    named = [dim for spec in inputs.values() for dim in spec["shape"] or [] if not dim.isdigit()]
    axes = list(dict.fromkeys(named))
    for name in axes:
        if not name.isidentifier():
            raise NotUsable(f"--shape: {name!r} is neither a length nor the name of an axis")
    if axes and not request.axes:
        raise NotUsable(f"--axes: expected lengths of {', '.join(axes)}, as {axes[0]}=128")
    for one in request.axes:
        missing = [name for name in axes if name not in one]
        odd = [name for name in one if name not in axes]
        if missing:
            raise NotUsable(f"--axes: {missing[0]} is missing in one; all of {', '.join(axes)}")
        if odd and not request.draw:  # a generator may have axes of its own
            raise NotUsable(f"--axes: no shape has {odd[0]!r}; expected {', '.join(axes)}")
        axes += [name for name in odd if name not in axes]
    return axes


def _reference(found: Found, request: Request, inputs: Mapping[str, Document]) -> str:
    """Return the source of a module of its own whose `run` calls the function."""
    names = ", ".join(inputs)
    text = found.text
    if text is not None:
        defined = pyast.functions(pyast.parse(text))
        if "run" in defined and found.name != "run":
            raise NotUsable(
                f"--from {request.source}: the file has a function run of its own; rename it"
            )
        if request.draw and request.draw not in defined:
            raise NotUsable(
                f"--draw: the file has no function {request.draw!r}; it has {', '.join(defined)}"
            )
        if "run" in defined and pyast.positional(defined["run"]) == list(inputs):
            return text
        if "run" in defined:
            raise NotUsable(
                f"--from {request.source}: run takes more than {names}; give the others a --shape, or "
                "rename it"
            )
        head = text.rstrip() + "\n"
        called = found.name
    else:
        if request.draw:
            raise NotUsable("--draw: an installed module has none; expected a file of yours")
        head, called = f"import {found.module.__name__}\n", f"{found.module.__name__}.{found.name}"
    arguments = _arguments(found, request, inputs)
    return f"{head}\n\ndef run({names}):\n    return {called}({arguments})\n"


def _arguments(found: Found, request: Request, inputs: Mapping[str, Document]) -> str:
    known = parameters(found.get(found.name))
    constants = [f"{name}={value!r}" for name, value in request.constants.items()]
    for text in constants:
        ast.parse(f"f({text})")
    if known is None:  # it does not tell its names: tensors by position, numbers too
        return ", ".join([*inputs, *constants])
    by_name = {one.name for one in known if one.kind is one.KEYWORD_ONLY}
    passed: list[str] = []
    after_gap = False
    for one in known:
        if one.name in inputs:
            named = after_gap or one.name in by_name
            passed.append(f"{one.name}={one.name}" if named else one.name)
        else:
            after_gap = True
    return ", ".join([*passed, *constants])


def _loaded(reference: str) -> Any:
    try:
        return load_reference(reference).run
    except (*FAILURES, SyntaxError) as error:
        raise NotUsable(f"its source does not stand alone: {one_line(error)}") from None


def _workload(axes: dict[str, int], inputs: Mapping[str, Document], request: Request) -> Document:
    uuid = "-".join(f"{name}{length}" for name, length in axes.items()) or "only"
    told: dict[str, Document] = {}
    for name in inputs:
        if request.draw:
            told[name] = {"type": "custom"}
        elif name in request.scalars:
            told[name] = {"type": "scalar", "value": request.scalars[name]}
        else:
            told[name] = {"type": "random"}
    return {"uuid": uuid, "axes": axes, "inputs": told}


_Try = tuple[dict[str, int], list[Output]]


@dataclass(frozen=True)
class _Trial:
    """Calls of a function that tell what comes out."""

    run: Any
    inputs: Mapping[str, Document]
    scalars: Mapping[str, Scalar]

    def call(self, axes: Mapping[str, int]) -> list[Output]:
        """Return the outputs at some lengths; without memory or arithmetic where torch can do that."""
        last = ""
        for device in ("meta", "cpu"):
            try:
                arguments = [self._argument(name, axes, device) for name in self.inputs]
                with torch.no_grad():
                    return described(self.run(*arguments), list(self.inputs))
            except FAILURES as error:
                if isinstance(error, NotUsable):
                    raise
                last = one_line(error)
        at = ", ".join(f"{name}={length}" for name, length in axes.items())
        raise NotUsable(f"the function raised {last}" + (f" at {at}" if at else ""))

    def _argument(self, name: str, axes: Mapping[str, int], device: str) -> Any:
        spec = self.inputs[name]
        if spec["shape"] is None:
            return self.scalars[name]
        shape = tuple(axes[dim] if dim in axes else int(dim) for dim in spec["shape"])
        tensor = TensorSpec.model_validate(spec)
        if device == "meta":
            dtype = torch_dtype(tensor.dtype)
            return torch.empty(stored_shape(tensor, shape), dtype=dtype, device="meta")
        if torch.Size(shape).numel() > _MOST_ELEMENTS:
            raise RuntimeError(f"{name} is too large to try on this machine's CPU")
        return draw(name, tensor, shape, torch.Generator().manual_seed(0))


def _tried(trial: _Trial, workloads: list[dict[str, int]], notes: list[str]) -> list[_Try]:
    """Call the function at every workload and at a few other lengths; returns what came out."""
    tried = [(axes, trial.call(axes)) for axes in workloads]
    first = workloads[0]
    for name, length in first.items():
        for other in (length + 1, length * 2):
            axes = {**first, name: other}
            try:
                tried.append((axes, trial.call(axes)))
                break
            except NotUsable:
                continue  # not every length need be legal
        else:
            notes.append(f"axes: {name} could not be varied to see what depends on it")
    return tried


def _outputs(
    tried: list[_Try], taken: list[str], notes: list[str]
) -> tuple[dict[str, Document], dict[str, str]]:
    """Return the outputs' specifications, and the axes that they need beside the inputs'."""
    kinds = {tuple((o.name, o.dtype, o.shape and len(o.shape)) for o in outs) for _, outs in tried}
    if len(kinds) > 1:
        raise NotUsable("the outputs differ in number, dtype or dimensions between workloads")
    outputs: dict[str, Document] = {}
    expressions: dict[str, str] = {}
    for index, one in enumerate(tried[0][1]):
        shape: list[str] | None = None
        if one.shape is not None:
            shape = []
            for dim in range(len(one.shape)):
                lengths = [(axes, outs[index].shape or ()) for axes, outs in tried]
                examples: list[Example] = [(axes, of[dim]) for axes, of in lengths]
                shape.append(_extent(one.name, dim, examples, expressions, taken))
        outputs[one.name] = {"shape": shape, "dtype": one.dtype}
    return outputs, expressions


def _extent(
    name: str, dim: int, examples: list[Example], expressions: dict[str, str], taken: list[str]
) -> str:
    text = expression_for(examples)
    if text is None:
        seen = ", ".join(f"{length} with {dict(axes)}" for axes, length in examples[:3])
        raise NotUsable(
            f"output {name}: no expression of the axes gives the length of dimension {dim} ({seen}); "
            "write the definition by hand"
        )
    if text.isdigit() or text in examples[0][0]:
        return text
    known = {value: key for key, value in expressions.items()}
    if text in known:
        return known[text]
    axis = f"{name}_{dim}"
    while axis in taken or axis in examples[0][0]:
        axis += "_length"
    expressions[axis] = text
    return axis
