"""The kernels of the A/A study on a GPU, and delays planted inside them.

A delay is in the kernel itself: the last block to end waits so many cycles of its multiprocessor.
That adds the same time to every call, whatever else the kernel does; a kernel without a delay has
the same code with a wait of nothing.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.solution import Solution, SourceFile, read_solution
from kernelarc_mcp.data import data_dir

_RMS: Final = Path(__file__).with_name("rmsnorm_block.cu")
_TAIL = """
namespace {
__device__ unsigned planted_blocks;

// The counter wraps to zero by itself: the next call finds it as this one did.
__device__ __forceinline__ void planted_wait() {
  __syncthreads();
  if (threadIdx.x) return;
  __threadfence();
  const unsigned last = gridDim.x * gridDim.y * gridDim.z - 1;
  if (atomicInc(&planted_blocks, last) != last) return;
  const long long begin = clock64();
  while (clock64() - begin < PLANTED_CYCLES) {
  }
}
}  // namespace

"""
_KERNEL = re.compile(r"^__global__ [^{;]*\{$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Subject:
    """One kernel on one workload."""

    name: str
    bound_by: str
    problem: Problem
    """With one workload."""
    base: Solution

    def planted(self, cycles: int) -> Solution:
        """Return the kernel with a wait of so many cycles in its last block."""
        (source,) = self.base.sources
        content = with_wait(source.content, cycles)
        return self.base.model_copy(
            update={
                "name": f"{self.base.name}_{cycles}",
                "sources": [SourceFile(path=source.path, content=content)],
            }
        )


def with_wait(source: str, cycles: int) -> str:
    """Return CUDA C++ of one kernel with a wait at the kernel's end.

    ValueError where the source has no kernel or several, or one that returns early.
    """
    found = list(_KERNEL.finditer(source))
    if len(found) != 1:
        raise ValueError(f"{len(found)} kernels; expected one")
    begin = found[0].end()
    end = source.index("\n}\n", begin)
    if re.search(r"\breturn\b", source[begin:end]):
        raise ValueError("the kernel returns early: its blocks cannot be counted at its end")
    tail = _TAIL.replace("PLANTED_CYCLES", f"{cycles}LL")
    # Behind the last include, which is before every namespace.
    head = max(match.end() for match in re.finditer(r"^#include .*\n", source, re.MULTILINE))
    body = f"{source[head:end]}\n  planted_wait();{source[end:]}"
    return f"{source[:head]}{tail}{body}"


def subjects() -> dict[str, Subject]:
    """Return the three kernels by name."""
    rms, gemm = data_dir("kernels") / "rmsnorm", data_dir("kernels") / "gemm_bf16"
    return {
        one.name: one
        for one in (
            # Few rows: a few microseconds, of which the launch is a large part.
            _subject("rmsnorm-small", "launch", _one(rms, rows=32), _RMS),
            _subject("rmsnorm-large", "bandwidth", _one(rms, rows=4096), _RMS),
            _subject("gemm", "matrix", _one(gemm, m=4096), gemm / "solutions" / "wmma.cu"),
        )
    }


def _subject(name: str, bound_by: str, problem: Problem, path: Path) -> Subject:
    return Subject(name, bound_by, problem, read_solution(path, problem.definition))


def _one(folder: Path, **axes: int) -> Problem:
    """Return a problem with the one workload for GPUs that has these axes."""
    whole = read_problem(folder, "workload.gpu.jsonl")
    (chosen,) = (one for one in whole.workloads if axes.items() <= one.axes.items())
    return whole.model_copy(update={"workloads": [chosen]})
