"""What first runs of solutions left in their scratch folders, for their runs in other nurseries; light.

Compiled kernels, most of all. Packed by one warden and unpacked by another; here they are only
descriptors, by the digest of what was built.
"""

import os
from collections import OrderedDict
from typing import Final

_MOST: Final = 8
"""Solutions that are remembered; each may hold `scratch.KEPT_BYTES`."""


class Keepsakes:
    """The archives of the solutions that ran last."""

    def __init__(self) -> None:
        """Start with none."""
        self._archives: OrderedDict[str, int] = OrderedDict()

    def get(self, digest: str) -> int | None:
        """Return the descriptor of a solution's archive, which stays ours; None without one."""
        if digest in self._archives:
            self._archives.move_to_end(digest)
        return self._archives.get(digest)

    def put(self, digest: str, archive: int) -> None:
        """Take over an archive's descriptor; the first of a solution stays."""
        if digest in self._archives:
            os.close(archive)
            return
        self._archives[digest] = archive
        if len(self._archives) > _MOST:
            os.close(self._archives.popitem(last=False)[1])

    def close(self) -> None:
        """Forget them all."""
        while self._archives:
            os.close(self._archives.popitem()[1])
