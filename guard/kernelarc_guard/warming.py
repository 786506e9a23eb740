"""What a nursery does once so that its runners need not: never anything that opens a GPU; light."""

import subprocess
from contextlib import suppress
from typing import Final

WARMED_FOR: Final = "KERNELARC_CAPABILITY"
"""Environment variable with the compute capability, as in ``90``, of the GPU that runners will use."""


def warm_triton(capability: int) -> None:
    """Import Triton, where it is installed, and let it remember what a first launch looks up.

    Its first launch hashes its own libraries, hundreds of MB, and starts two programs; runners are
    forks and inherit the answers. A version that keeps them elsewhere is imported all the same.
    """
    try:
        import triton.language  # noqa: F401 - warm for the runners
    except ImportError:
        return
    with suppress(ImportError, AttributeError, TypeError):
        from triton.runtime.cache import triton_key

        triton_key()
    with suppress(
        ImportError, AttributeError, TypeError, OSError, AssertionError, subprocess.SubprocessError
    ):
        from triton.backends.nvidia.compiler import get_ptxas_version
        from triton.backends.nvidia.driver import library_dirs

        get_ptxas_version(capability)
        library_dirs()
