"""What a solution changed in the process it runs in, as far as the process can tell (imports torch).

Runs in the runner, which is untrusted: what it says is an observation and decides nothing.
"""

import builtins
import gc
import math
import os
import signal
import threading
import time
from types import ModuleType
from typing import Any, Final

import torch

_OWNERS: Final[tuple[ModuleType | type[Any], ...]] = (
    builtins,
    gc,
    math,
    os,
    signal,
    threading,
    time,
    torch,
    torch.Tensor,
    torch.Generator,
    torch.cuda,
    torch.cuda.Event,
    torch.nn.Module,
    torch.nn.functional,
)
_MOST: Final = 8


class Watch:
    """A note of shared functions and settings, taken before a solution loads."""

    def __init__(self) -> None:
        """Take the note; it holds the objects, not only their ids."""
        self._functions = {
            (owner, name): (value, getattr(value, "__code__", None))
            for owner in _OWNERS
            for name, value in vars(owner).items()
            if callable(value)
        }
        self._names = {owner: frozenset(vars(owner)) for owner in _OWNERS}
        self._settings = _settings()

    def changes(self) -> list[str]:
        """Return what is different now, one line each."""
        seen = [
            f"patched: {owner.__name__}.{name}"
            for (owner, name), (value, code) in self._functions.items()
            if vars(owner).get(name) is not value or getattr(value, "__code__", None) is not code
        ]
        seen += [
            f"added: {owner.__name__}.{name}"
            for owner in _OWNERS
            if isinstance(owner, type)
            for name in vars(owner)
            if name not in self._names[owner]
        ]
        if len(seen) > _MOST:
            seen[_MOST:] = [f"{len(seen) - _MOST} more were patched or added"]
        now = _settings()
        seen += [
            f"changed: {name} from {before} to {now[name]}"
            for name, before in self._settings.items()
            if now[name] != before
        ]
        return seen


def _settings() -> dict[str, object]:
    return {
        "torch threads": torch.get_num_threads(),
        "Python threads": threading.active_count(),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "default dtype": torch.get_default_dtype(),
    }
