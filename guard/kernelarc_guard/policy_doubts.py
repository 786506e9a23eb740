"""Rules for what is only worth noting: legal, often honest, sometimes the trace of a trick."""

import ast
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Final

from kernelarc_guard.policy_evidence import native
from kernelarc_guard.pynames import Names, constant_text

Hit = tuple[int, str]

_CLOCKS: Final = frozenset(
    [
        "time.time",
        "time.time_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.monotonic",
        "time.monotonic_ns",
        "time.process_time",
        "time.thread_time",
        "timeit.timeit",
        "timeit.default_timer",
    ]
)
_SWITCHES: Final = frozenset(
    [
        "torch.set_float32_matmul_precision",
        "torch.set_default_dtype",
        "torch.set_flush_denormal",
        "torch.use_deterministic_algorithms",
    ]
)
_COMPUTED: Final = frozenset({"builtins.exec", "builtins.eval", "builtins.compile"})
_LONG: Final = 60
"""A string of fewer characters is no source of a kernel."""


def precision_switch(names: Names) -> Iterator[Hit]:
    """Note switches that change how every operator of the process computes."""
    for call, name in names.calls():
        if name in _SWITCHES:
            yield call.lineno, f"calls {name}"


def lower_precision(names: Names) -> Iterator[Hit]:
    """Refuse asking all of torch for less than float32, where float32 is what is promised."""
    says = "asks for less precision than float32, which this problem promises"
    for call, name in names.calls():
        if name == "torch.set_float32_matmul_precision" and call.args:
            if constant_text(call.args[0]) in {"high", "medium"}:
                yield call.lineno, f"{name} {says}"
    for node in names.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                name = names.dotted(target) or ""
                if name.startswith("torch.backends.") and _narrows(name, node.value.value):
                    yield node.lineno, f"{name} {says}"


def _narrows(name: str, value: object) -> bool:
    if name.endswith("allow_tf32"):
        return value is True
    return name.endswith("fp32_precision") and value in {"tf32", "bf16"}


def sleeping(names: Names) -> Iterator[Hit]:
    """Note waiting, which makes nothing faster."""
    for call, name in names.calls():
        if name in {"time.sleep", "asyncio.sleep", "select.select"}:
            yield call.lineno, f"calls {name}"


def own_clock(names: Names) -> Iterator[Hit]:
    """Note that it measures itself."""
    for call, name in names.calls():
        if name in _CLOCKS:
            yield call.lineno, f"reads {name}"


def other_modules(names: Names) -> Iterator[Hit]:
    """Note a look at everything the process has loaded."""
    for line, name in names.mentions():
        if name == "sys.modules" or name.partition(".")[0] == "__main__":
            yield line, f"uses {name}"


def exit_handler(names: Names) -> Iterator[Hit]:
    """Note code that runs when the process ends."""
    for line, name in names.mentions():
        if name in {"atexit.register", "weakref.finalize"}:
            yield line, f"uses {name}"


def page_protection(names: Names) -> Iterator[Hit]:
    """Note changed protection of memory pages."""
    for line, name in native(names, frozenset({"mprotect", "pkey_mprotect"})):
        yield line, f"calls {name}"


def computed_code(names: Names) -> Iterator[Hit]:
    """Note code that is computed and then run."""
    for call, name in names.calls():
        if name in _COMPUTED and call.args and not isinstance(call.args[0], ast.Constant):
            yield call.lineno, f"calls {name.partition('.')[2]} on computed text"


def unused(names: Names) -> Iterator[Hit]:
    """Note functions and long texts that nothing refers to: a kernel that is only shown."""
    used = {
        node.id
        for node in names.nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    } | {name for _, name in names.attributes()}
    module = names.nodes[0]
    assert isinstance(module, ast.Module)
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name not in used:
            yield node.lineno, f"defines {node.name}, which nothing uses"
        elif isinstance(node, ast.Assign) and _is_long(node.value):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id not in used:
                    yield node.lineno, f"defines {target.id}, which nothing uses"


def absent_module(names: Names) -> Iterator[Hit]:
    """Note modules that this machine does not have."""
    for line, name in names.mentions():
        root = name.partition(".")[0]
        if root != "builtins" and root.isidentifier() and not _exists(root):
            yield line, f"imports {root}, which is not installed"


def _exists(root: str) -> bool:
    try:
        return find_spec(root) is not None
    except ValueError:
        return True  # __main__ and the like: modules without a spec


def _is_long(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > _LONG
    )


DOUBTS: Final[tuple[Callable[[Names], Iterator[Hit]], ...]] = (
    precision_switch,
    sleeping,
    own_clock,
    other_modules,
    exit_handler,
    page_protection,
    computed_code,
    unused,
    absent_module,
)
