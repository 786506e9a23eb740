"""KernelBench-style modules as problems: `Model`, `get_inputs`, `get_init_inputs` (imports torch).

The module's parameters become inputs after those of `forward`, drawn as the Model initialises them
(those with one value everywhere around it) and marked as static; its buffers stay inside the
reference. Everything has the lengths that the module states.
"""

import inspect
from typing import Any, Final

import torch

from kernelarc_guard import pyast
from kernelarc_guard.formats.authored import Request
from kernelarc_guard.formats.documents import Document, Documents
from kernelarc_guard.formats.module_source import Found, NotUsable, replaced
from kernelarc_guard.formats.outputs import described, dtype_name
from kernelarc_guard.reference import FAILURES, load_reference, one_line

NEEDED: Final = ("Model", "get_inputs", "get_init_inputs")
_TAIL: Final = '''

_KEPT = {{}}


def _model(device):
    """Return one Model, made once: its parameters are given with each call."""
    if device not in _KEPT:
        import torch as _torch

        with _torch.random.fork_rng(devices=[]):
            _torch.manual_seed(0)
            _KEPT[device] = Model(*get_init_inputs()).to(device){mode}
    return _KEPT[device]


def _fresh():
    """Return the arguments of forward and the parameters of a Model that was just initialised.

    What is initialised to one value everywhere (a norm's weight) is drawn around it.
    """
    parameters = [one.detach().clone() for one in Model(*get_init_inputs()).parameters()]
    for one in parameters:
        if one.is_floating_point() and one.numel() and bool((one == one.reshape(-1)[0]).all()):
            one += 0.1 * one.new_empty(one.shape).normal_()
    return list(get_inputs()), parameters


def draw_inputs(axes_and_scalars, device):
    arguments, parameters = _fresh()
    values = [
        one.to(device) if hasattr(one, "to") else one for one in [*arguments, *parameters]
    ]
    return dict(zip({names!r}, values, strict=True))


def run({signature}):
    from torch.func import functional_call as _call

    arguments = ({arguments})
    parameters = ({parameters})
    wide = [one for one in (*parameters, *arguments) if hasattr(one, "is_floating_point")]
    wide = next((one for one in wide if one.is_floating_point()), None)
    model = _model(str(wide.device) if wide is not None else "cpu")
    state = dict(zip([name for name, _ in model.named_parameters()], parameters, strict=True))
    for name, one in model.named_buffers():
        floating = one.is_floating_point() and wide is not None
        state[name] = one.to(wide.dtype, copy=True) if floating else one.clone()
    return _call(model, state, arguments)
'''


def is_kernelbench(module: Any) -> bool:
    """Say whether a module has the members of a KernelBench problem."""
    return all(callable(getattr(module, name, None)) for name in NEEDED)


def from_module(found: Found, request: Request, notes: list[str]) -> Documents:
    """Return the problem of a KernelBench-style module; NotUsable says what is wrong."""
    if found.text is None:
        raise NotUsable(f"--from {request.source}: expected a file of yours, not an installed one")
    for option, given in (
        ("--shape", request.shapes),
        ("--dtype", request.dtypes),
        ("--scalar", request.scalars),
        ("--constant", request.constants),
        ("--axes", request.axes),
        ("--draw", request.draw),
    ):
        if given:
            raise NotUsable(f"{option}: the module states it; --set changes its constants")
    text = replaced(found.text, request.settings) if request.settings else found.text
    defined = pyast.functions(pyast.parse(text))
    for name in ("run", "draw_inputs", "_model", "_fresh"):
        if name in defined:
            raise NotUsable(f"--from {request.source}: the module has a function {name} of its own")
    arguments, parameters, names = _called(text, request)
    reference = (
        text.rstrip()
        + "\n"
        + _TAIL.format(
            mode=".eval()" if request.evaluating else "",
            names=names,
            signature=", ".join(names),
            arguments="".join(f"{name}, " for name in names[: len(arguments)]),
            parameters="".join(f"{name}, " for name in names[len(arguments) :]),
        )
    )
    outputs = _outputs(reference, names, [*arguments, *parameters])
    document: Document = {
        "name": request.name or found.label,
        "op_type": request.op_type or "other",
        "axes": {},
        "inputs": {
            name: _spec(name, value)
            for name, value in zip(names, [*arguments, *parameters], strict=True)
        },
        "outputs": outputs,
        "reference": reference,
        "custom_inputs_entrypoint": "draw_inputs",
    }
    if parameters:
        document["kernelarc"] = {"static_inputs": names[len(arguments) :]}
    workload = {"uuid": "only", "axes": {}, "inputs": {name: {"type": "custom"} for name in names}}
    return Documents(document, [workload])


def _called(text: str, request: Request) -> tuple[list[Any], list[Any], list[str]]:
    """Return sample arguments, sample parameters and the names of both."""
    try:
        module = load_reference(text)
        with torch.random.fork_rng(devices=[]):
            arguments = list(module.get_inputs())
            model = module.Model(*module.get_init_inputs())
    except (*FAILURES, SyntaxError) as error:
        raise NotUsable(f"--from {request.source}: raised {one_line(error)}") from None
    if not isinstance(model, torch.nn.Module):
        raise NotUsable(f"--from {request.source}: Model is no torch.nn.Module")
    for one in arguments:
        if not isinstance(one, torch.Tensor | bool | int | float):
            raise NotUsable(
                f"get_inputs: returned a {type(one).__name__}; expected tensors and numbers"
            )
    forward = [
        one.name
        for one in inspect.signature(model.forward).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    if len(forward) < len(arguments):
        forward += [f"argument_{index}" for index in range(len(forward), len(arguments))]
    names: list[str] = []
    parameters = dict(model.named_parameters())
    for raw in (*forward[: len(arguments)], *parameters):
        name = raw.replace(".", "_")
        while name in names or name in ("arguments", "parameters", "wide", "model", "state"):
            name += "_"
        names.append(name)
    return arguments, [one.detach() for one in parameters.values()], names


def _spec(name: str, value: Any) -> Document:
    if isinstance(value, torch.Tensor):
        return {"shape": [str(one) for one in value.shape], "dtype": dtype_name(name, value)}
    kind = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
    return {"shape": None, "dtype": kind}


def _outputs(reference: str, names: list[str], values: list[Any]) -> dict[str, Document]:
    try:
        module = load_reference(reference)
        with torch.no_grad():
            returned = module.run(*values)
    except (*FAILURES, SyntaxError) as error:
        raise NotUsable(f"Model: forward raised {one_line(error)}") from None
    return {
        one.name: {
            "shape": None if one.shape is None else [str(length) for length in one.shape],
            "dtype": one.dtype,
        }
        for one in described(returned, names)
    }
