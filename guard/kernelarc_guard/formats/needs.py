"""What a reference needs that a CPU does not have, from its text; light."""

import ast

from kernelarc_guard import pyast

_CALLS = {
    "cuda": "it moves tensors to a GPU (.cuda())",
    "_scaled_mm": "torch._scaled_mm needs the matrix units of a GPU",
    "_scaled_grouped_mm": "torch._scaled_grouped_mm needs the matrix units of a GPU",
}
_MODULES = {
    "triton": "it imports triton",
    "cupy": "it imports cupy",
    "flashinfer": "it imports flashinfer",
    "cutlass": "it imports cutlass",
    "tilelang": "it imports tilelang",
}


def needs_gpu(reference: str) -> str:
    """Return why a reference that failed on the CPU may need a GPU; empty where nothing says so."""
    try:
        tree = pyast.parse(reference)
    except ValueError:
        return ""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            if name.partition(".")[0] in _MODULES:
                return _MODULES[name.partition(".")[0]]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _CALLS:
                return _CALLS[node.func.attr]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value == "cuda" or node.value.startswith("cuda:"):
                return "it names the device cuda"
    return ""


def with_need(error: object, reference: str, place: str) -> str:
    """Return an error of a reference, with what it may need where it ran on the CPU."""
    why = needs_gpu(reference) if place == "cpu" else ""
    return f"{error} ({why}: it needs CUDA, --device cuda:0)" if why else str(error)
