"""Keeps the garbage collector from holding up everybody whom a server serves."""

import gc
from typing import Final

_YOUNG: Final = 5_000
"""Objects that are made, less those that are freed, until the youngest are looked through."""


def shorten_pauses() -> None:
    """Set the collector of this process up for serving; called once, when all that stays is there.

    Modules, schemas and the ledger's rows, some 100,000 objects, are never garbage. Going through
    them took 100 ms or more every few hundred requests. One request makes some hundred objects that
    it frees itself, and leaves a few cycles: the youngest need a look only after many requests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
