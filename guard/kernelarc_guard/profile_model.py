"""What a profile says of one solution on one workload; light."""

from typing import Literal

from pydantic import Field

from kernelarc_guard.model import Model
from kernelarc_guard.timeline_model import Timeline

Bottleneck = Literal[
    "launch-bound",
    "bandwidth-bound",
    "matrix-bound",
    "arithmetic-bound",
    "latency-bound",
    "unknown",
]


class MachineCode(Model):
    """What a disassembler counts, by instruction; static: nothing is weighted by how often it ran."""

    instructions: int = 0
    matrix: dict[str, int] = {}
    """Matrix instructions by name: HGMMA, HMMA, ...; on a CPU none."""
    loads: dict[str, int] = {}
    """Global loads by width in bits, asynchronous ones by their name; on a CPU vector widths."""
    stores: dict[str, int] = {}
    spill_loads: int = 0
    """From local memory (LDL); on a CPU vector reloads from the stack."""
    spill_stores: int = 0
    other: dict[str, int] = {}
    """Of the rest what is telling: FFMA, MUFU, BAR, ..."""


class KernelFacts(Model):
    """One kernel of the call, as the counters saw it; percent are of the device's peak."""

    name: str
    launches: int = Field(default=1, ge=1)
    """Of this name; the facts are those of the longest."""
    microseconds: float = Field(ge=0)
    """Of all its launches."""
    compute_percent: float | None = None
    memory_percent: float | None = None
    dram_percent: float | None = None
    l2_percent: float | None = None
    matrix_percent: float | None = None
    l2_hit_percent: float | None = None
    dram_bytes: float | None = None
    occupancy_percent: float | None = None
    """Achieved."""
    occupancy_limit_percent: float | None = None
    """What the launch could reach."""
    limiter: str = ""
    """What limits the occupancy."""
    registers: int | None = None
    """Per thread."""
    shared_bytes: int | None = None
    """Per block, static and dynamic."""
    blocks: int | None = None
    threads: int | None = None
    """Per block."""
    waves: float | None = None
    stalls: dict[str, float] = {}
    """Reason -> warps that wait for it, on average, for each instruction issued; largest first."""


class Profile(Model):
    """The whole of it; a share is of 1."""

    device: str
    workload: str
    bottleneck: Bottleneck
    why: str
    """The numbers that say so, in one sentence."""
    timeline: Timeline | None = None
    """What one call did on a GPU and when; None where nothing recorded it, which a note says."""
    roofs: dict[str, float] = {}
    """Share of each roof that the call reached: memory, matrix, compute."""
    kernels: list[KernelFacts] = []
    """Longest first."""
    kernels_us: float | None = None
    """Of all kernels of the call together, by the profiler."""
    call_us: float | None = None
    """What a call was measured to take when the solution was judged."""
    code: MachineCode | None = None
    """None where it has no machine code of its own."""
    code_against_record: dict[str, str] = {}
    """What differs: counter -> `record -> candidate`."""
    notes: list[str] = []
    """What could not be said, and why."""


def printable(text: str, most: int) -> str:
    """Return a foreign text as one printable line of at most `most` characters, cut with a mark."""
    line = " ".join(text.split())
    line = "".join(one if one.isprintable() else "?" for one in line)
    return line if len(line) <= most else f"{line[: most - 3]}..."
