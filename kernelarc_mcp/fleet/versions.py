"""With which code a host judges, in words that are equal only where it is the same."""

import hashlib
import json
from functools import lru_cache

from kernelarc_guard.inquiries import QUESTION, REPLY
from kernelarc_guard.prepare import BuildEnd, BuildOrder
from kernelarc_mcp import __version__


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Return what must be the same on the server and wherever a guard judges for it.

    `protocol` is a digest of what can be said on the wires of guards and builders, so it changes with every field.
    """
    wire = [one.json_schema() for one in (QUESTION, REPLY)]
    wire += [one.model_json_schema() for one in (BuildOrder, BuildEnd)]
    digest = hashlib.sha256(json.dumps(wire, sort_keys=True).encode()).hexdigest()
    return {"kernelarc": __version__, "protocol": digest[:12]}
