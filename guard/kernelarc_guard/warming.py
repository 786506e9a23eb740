"""What a nursery does once so that its runners need not: never anything that opens a GPU; light."""

import subprocess
from contextlib import suppress
from importlib import import_module
from typing import Final

WARMED_FOR: Final = "KERNELARC_CAPABILITY"
"""Environment variable with the compute capability, as in ``90``, of the GPU that runners will use."""
_UNKNOWN: Final = (ImportError, AttributeError, TypeError)
"""What a version of Triton that keeps things elsewhere raises: then a runner looks them up itself."""


def warm_triton(capability: int) -> None:
    """Import Triton, where it is installed, and let it remember what a first launch looks up.

    Its first launch hashes its own libraries, hundreds of MB, starts two programs and imports more;
    runners are forks and inherit all that.
    """
    try:
        import_module("triton.language")
    except ImportError:
        return
    with suppress(ImportError):
        import_module("triton.experimental.gluon.nvidia.hopper")
    with suppress(*_UNKNOWN):
        import_module("triton.runtime.cache").triton_key()
    with suppress(*_UNKNOWN, OSError, subprocess.SubprocessError):
        import_module("triton.backends.nvidia.compiler").get_ptxas_version(capability)
    with suppress(*_UNKNOWN, OSError, subprocess.SubprocessError, AssertionError):
        import_module("triton.backends.nvidia.driver").library_dirs()
