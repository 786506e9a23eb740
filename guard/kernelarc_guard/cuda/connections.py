"""How many connections to the device a runner's context gets: few, unless streams are made; light.

Each one takes 10 ms to set up and as long again to take down, for every context that there is. A solution that
makes no streams uses one of them. All arms of a judgement get the same number.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kernelarc_guard.solution import Solution

_VARIABLE: Final = "CUDA_DEVICE_MAX_CONNECTIONS"
_FEW: Final = {_VARIABLE: "2"}
_USUAL: Final = {_VARIABLE: "8"}
"""What the driver chooses by itself."""
_MAKES_STREAMS: Final = re.compile(r"stream\w*create|streamfrompool|\bstream\s*\(|graph", re.I)


def connections_for(solutions: Iterable[Solution]) -> Mapping[str, str]:
    """Return the environment variable that a judgement's runners open the device with."""
    sources = (source.content for one in solutions for source in one.sources)
    return _USUAL if any(map(_MAKES_STREAMS.search, sources)) else _FEW
