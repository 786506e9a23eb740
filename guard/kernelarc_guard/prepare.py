"""The request to build ahead what will be judged next; light, the server imports it.

It goes to a guard that is in the middle of something else, decides nothing and is never answered. What
comes of it is an entry of the build cache, as any build's, or nothing: then the judgement builds. A host that
only builds is asked for the same by a `BuildOrder` (`build_slot.py`), and says where the entry is.
"""

import json
from typing import Any, Literal

from kernelarc_guard.definition import Definition
from kernelarc_guard.model import Model
from kernelarc_guard.protocol import BaseRequest
from kernelarc_guard.solution import Solution
from kernelarc_guard.workload import Workload


class Prepare(BaseRequest):
    """Have a submission that is next in line looked at and built, beside what is being measured."""

    op: Literal["prepare"] = "prepare"
    definition: Definition
    candidate: Solution
    workloads: list[Workload] = []
    """What kernels that are compiled for shapes are compiled for; none: they are not."""


class BuildOrder(Model):
    """What a build slot is asked for."""

    request: Prepare
    architecture: str = ""
    """Of the GPU that it is for, as in ``90a``; empty: the host's own processor."""


class BuildEnd(Model):
    """What came of an order."""

    key: str = ""
    """The entry in the build cache; empty where nothing was built."""
    why: str = ""
    """Why not, in a sentence."""
    seconds: float = 0.0


def prepare_in(line: bytes) -> dict[str, Any] | None:
    """Return the request in a line to the guard, not validated yet, or None where it is another's."""
    if b'"prepare"' not in line:
        return None  # all but always; what is long is parsed once, by whoever answers it
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("op") == "prepare" else None
