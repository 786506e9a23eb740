"""Keeps the garbage collector from holding up everybody whom a server serves."""

import gc
from typing import Final

import anyio

_YOUNG: Final = 50_000
"""Objects that are made, less those that are freed, until a call itself has to look through them."""
_WORTH: Final = 500
"""The same, until a look between calls is worth it."""
_LOOK_SECONDS: Final = 0.25
_MIDDLE: Final = 40
"""Looks at the youngest until those that outlived one are looked at too."""
_ALL: Final = 2400
"""Looks until everything is, but for what stays."""


def shorten_pauses() -> None:
    """Set the collector of this process up for serving; called once, when all that stays is there.

    Modules, schemas and the ledger's rows, some 100,000 objects, are never garbage. Going through
    them took 100 ms or more every few hundred requests. One request makes some hundred objects that
    it frees itself, and leaves a few cycles: `collect_between` looks for those.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)


async def collect_between() -> None:
    """Collect garbage a little at a time, until cancelled.

    The collector by itself looks when a call makes the object that is one too many: that call, and
    all behind it, wait. Between calls, where a server mostly is, few objects at a time hold up nobody.
    """
    looks = 0
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        if gc.get_count()[0] < _WORTH:
            continue
        looks += 1
        gc.collect(2 if not looks % _ALL else 1 if not looks % _MIDDLE else 0)
