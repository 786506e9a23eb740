"""RMS normalisation on an NVIDIA GPU: Triton, CUDA C++ and the library, with a plan for each lens.

Every plan's moves hold one that is wrong, does not compile or repeats what was there: agents write
such candidates too, and a campaign has to show what becomes of them.
"""

from kernelfamilies.family import Family, Plan
from kernelfamilies.rmsnorm import LIBRARY
from kernelfamilies.rmsnorm_cuda import BLOCK, WARP
from kernelfamilies.rmsnorm_triton import BLOCKS, ROWS, STAY

FAMILY = Family(
    algorithms={a.name: a for a in (ROWS, BLOCK, BLOCKS, WARP, STAY, LIBRARY)},
    plans={
        "operator-fusion": Plan(
            algorithm="triton-rows",
            start={"warps": "4"},
            axes=("warps", "rows", "load", "store", "math"),
            moves=(("sum", "half"), ("math", "fast"), ("notes", "many")),
        ),
        "memory-layout": Plan(
            algorithm="cuda-block",
            start={"vector": "1"},
            axes=("vector", "keep", "threads"),
            moves=(("vector", "4"), ("align", "assumed"), ("spelling", "other")),
        ),
        "low-precision": Plan(
            algorithm="triton-blocks",
            axes=("block", "warps", "math", "load"),
            moves=(("sum", "half"),),
        ),
        "tile-pipeline": Plan(
            algorithm="triton-persistent",
            axes=("stages", "each", "warps", "store"),
            moves=(("stages", "2"), ("math", "fast")),
        ),
        "hardware-native": Plan(
            algorithm="cuda-block",
            start={"keep": "registers"},
            axes=("threads", "vector", "keep"),
            moves=(("vector", "8"),),
        ),
        "launch-dispatch": Plan(
            algorithm="cuda-warp", axes=("rows", "unroll", "vector"), moves=(("notes", "many"),)
        ),
        "library-autotuning": Plan(algorithm="library", axes=("call",)),
        "algorithm-substitution": Plan(
            algorithm="triton-blocks",
            start={"block": "4096"},
            axes=("block", "warps", "store"),
            moves=(("sum", "half"),),
        ),
    },
    default=Plan(algorithm="triton-rows", axes=("warps", "rows", "load", "store")),
)
