"""Make torch answer questions about a GPU that is not there (imports torch)."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch._subclasses import fake_tensor


def look_like(properties: dict[str, Any]) -> None:
    """Let this process's torch speak of one device with these properties, from now on.

    Only what solutions ask before they launch something: nothing can be allocated or launched.
    """
    capability = properties["major"], properties["minor"]
    stream = SimpleNamespace(cuda_stream=0, device=torch.device("cuda", 0), synchronize=_nothing)
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": _nothing,
        "synchronize": _nothing,
        "get_device_properties": lambda device=None: SimpleNamespace(**properties),
        "get_device_capability": lambda device=None: capability,
        "get_device_name": lambda device=None: properties["name"],
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "device": _there,
        "_lazy_init": _nothing,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    # Else it would allocate something on the device that seems to be there.
    for name in ("init_gpu_context", "init_cuda_context"):  # newer and older versions of torch
        setattr(fake_tensor, name, _nothing)
    setattr(fake_tensor.FakeTensorMode, "avoid_device_init", property(lambda mode: True))  # noqa: B010


@contextmanager
def _there(device: Any) -> Iterator[None]:
    yield


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None
