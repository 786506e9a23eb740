"""What a solution's processes find in their environment; light."""

import os
from typing import Final

PASSED_ON: Final = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")
"""Variables of the guard that solutions for a GPU see."""
CACHES: Final = {
    "XDG_CACHE_HOME": ".cache",
    "TORCHINDUCTOR_CACHE_DIR": ".cache/inductor",
    "TORCH_EXTENSIONS_DIR": ".cache/extensions",
    "TRITON_CACHE_DIR": ".cache/triton",
    "NUMBA_CACHE_DIR": ".cache/numba",
}
"""Where compilers keep what they made, below the one folder that a solution may write to."""


def runner_environment() -> dict[str, str]:
    """Return what every runner finds, whatever the guard was started with."""
    return {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": "/nowhere",
        "USER": "runner",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        # Its pool of compiling processes would stay beside the kernel.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
