"""A definition's reference as a loaded module, in the guard's own process (imports torch)."""

import hashlib
import linecache
import sys
import types
from functools import lru_cache
from typing import Final

FAILURES: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a problem's own code raises when it is wrong; anything else is a fault of the guard."""


@lru_cache(maxsize=32)
def load_reference(source: str) -> types.ModuleType:
    """Execute a reference's source once and return it as a module; its exceptions pass through."""
    name = f"kernelarc_reference_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    module = types.ModuleType(name)
    module.__file__ = f"<{name}>"
    # Triton reads the source of its kernels back, and dataclasses look their module up.
    linecache.cache[module.__file__] = (
        len(source),
        None,
        source.splitlines(keepends=True),
        module.__file__,
    )
    sys.modules[name] = module
    exec(compile(source, module.__file__, "exec"), module.__dict__)
    return module


def one_line(error: BaseException) -> str:
    """Return an exception as one short line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
