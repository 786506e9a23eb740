"""Fixed candidates for measuring a fleet: every run judges the same ones, whatever its devices.

On a GPU they are points of real families (RMSNorm: bandwidth; a BF16 product: matrix units), most of them
no faster than the seed, some wrong, some built by nvcc. For CPU devices with scripted guards they are plans.
"""

import random
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.solution import Solution, make_solution, read_solution
from kernelarc_mcp.data import data_dir

sys.path[:0] = [str(data_dir("clients"))]

from kernelfamilies import rmsnorm_gpu  # noqa: E402
from kernelfamilies.family import Candidate, Interface, Point, render  # noqa: E402

BANDWIDTH: Final = "rmsnorm"
MATRIX: Final = "gemm_bf16"
WORKLOADS: Final = 2
"""Of each problem on a GPU: a campaign has to begin and end within minutes."""
_SEED: Final = 11
_PLANS: Final = (
    "gain:-30",
    "gain:-8",
    "wrong",
    "gain:0.05",
    "gain:-60",
    "gain:-3",
    "broken",
    "gain:7",
)
_RMS_START: Final[tuple[str, Point]] = ("triton-rows", {"warps": "8"})
_RMS_AXES: Final[dict[str, dict[str, Sequence[str]]]] = {
    "triton-rows": {"warps": ("4", "8", "16"), "rows": ("1", "2"), "store": ("plain", "streaming")},
    "triton-blocks": {"block": ("1024", "2048", "4096"), "warps": ("4", "8")},
    "triton-persistent": {"each": ("1", "4"), "stages": ("1", "2"), "warps": ("4", "8")},
    "cuda-block": {"threads": ("128", "256", "512"), "vector": ("1", "4")},
    "cuda-warp": {"rows": ("2", "8"), "unroll": ("1", "4")},
}
_RMS_WRONG: Final[Sequence[tuple[str, Point]]] = (
    ("triton-rows", {"sum": "half"}),
    ("triton-blocks", {"math": "fast"}),
)
_TILES: Final = "block_m, block_n, block_k = (128, 256, 64) if m > 128 else (64, 64, 64)"
_TILE_SHAPES: Final = (
    (128, 256, 64),
    (256, 128, 64),
    (128, 128, 64),
    (64, 256, 32),
    (128, 128, 32),
)
_STAGES: Final = ("2", "3", "4")
_SHARED_BYTES: Final = 220 << 10
_MARK: Final = {".py": "#", ".cu": "//"}


@dataclass(frozen=True)
class Entry:
    """One candidate as an agent hands it in."""

    suffix: str
    source: str
    summary: str
    language: str = ""
    binding: str = ""
    fills: bool = True
    """The entry takes the outputs, too, and fills them."""

    def text(self) -> str:
        """Return it with the front matter that `clients/submit_folder.py` reads."""
        mark = _MARK[self.suffix]
        front = {"summary": self.summary, "language": self.language, "binding": self.binding}
        front["destination_passing"] = "true" if self.fills else "false"
        lines = [f"{mark} {key}: {value}" for key, value in front.items() if value]
        return "\n".join([f"{mark} ---", *lines, f"{mark} ---", self.source])


def problem_of(name: str, on_cpu: bool) -> Problem:
    """Return a problem of the library with the workloads that are measured."""
    whole = read_problem(
        data_dir("kernels") / name, "workload.jsonl" if on_cpu else "workload.gpu.jsonl"
    )
    return whole.model_copy(update={"workloads": whole.workloads[:WORKLOADS]})


def seed_of(name: str, on_cpu: bool) -> Solution | None:
    """Return a good kernel to begin from, so that few candidates win; None: the reference."""
    if on_cpu:
        return None
    problem = problem_of(name, on_cpu)
    if name == BANDWIDTH:
        return _solution(_rms(problem, *_RMS_START), problem.definition.name)
    return read_solution(
        data_dir("kernels") / name / "solutions" / "tiles_triton.py", problem.definition
    )


def entries(name: str, on_cpu: bool, count: int) -> list[Entry]:
    """Return so many candidates in an order that is always the same; ValueError where there are fewer."""
    if on_cpu:
        return [_planned(name, number) for number in range(count)]
    found = _rms_entries() if name == BANDWIDTH else _tile_entries()
    random.Random(_SEED).shuffle(found)
    if len(found) < count:
        raise ValueError(f"{name}: {len(found)} candidates; {count} were asked for")
    return found[:count]


def hand_out(chosen: Sequence[Entry], agents: int, folder: Path) -> list[Path]:
    """Write candidates in turn into a folder for each agent; return the folders that got some."""
    folders = [folder / f"candidates-{number + 1}" for number in range(min(agents, len(chosen)))]
    for number, entry in enumerate(chosen):
        own = folders[number % len(folders)]
        own.mkdir(parents=True, exist_ok=True)
        (own / f"k{number:03d}{entry.suffix}").write_text(entry.text(), encoding="utf-8")
    return folders


def _planned(name: str, number: int) -> Entry:
    plan = _PLANS[number % len(_PLANS)]
    reference = problem_of(name, True).definition.reference
    source = f"{reference}\n\nNUMBER = {number}\nPLAN = '{plan}'\n"
    return Entry(".py", source, f"Plan {plan}", "pytorch", fills=False)


def _rms(problem: Problem, algorithm: str, changes: Point) -> Candidate:
    definition = problem.definition
    interface = Interface(
        inputs=tuple(definition.inputs),
        outputs=tuple(definition.outputs),
        reference=definition.reference,
    )
    return render(
        rmsnorm_gpu.FAMILY, algorithm, rmsnorm_gpu.FAMILY.point(algorithm, changes), interface
    )


def _solution(one: Candidate, definition: str) -> Solution:
    spec = {
        "languages": [one.language],
        "entry_point": f"{one.filename}::run",
        "destination_passing_style": one.destination_passing,
    }
    sources = [{"path": one.filename, "content": one.source}]
    return make_solution(
        {"name": one.algorithm, "definition": definition, "spec": spec, "sources": sources}
    )


def _rms_entries() -> list[Entry]:
    """Return points of all algorithms but the seed's own; nvcc builds two in five of them."""
    problem, seen = problem_of(BANDWIDTH, False), {_RMS_START_KEY}
    found = []
    points = [
        (algorithm, dict(zip(axes, values, strict=True)))
        for algorithm, axes in _RMS_AXES.items()
        for values in product(*axes.values())
    ]
    for algorithm, changes in [*points, *_RMS_WRONG]:
        one = _rms(problem, algorithm, changes)
        key = (algorithm, tuple(sorted(one.point.items())))
        if key not in seen:
            seen.add(key)
            suffix = Path(one.filename).suffix
            summary = f"{algorithm} {' '.join(changes.values())}"
            fills = one.destination_passing
            found.append(Entry(suffix, one.source, summary, one.language, one.binding, fills))
    return found


_RMS_START_KEY: Final = (
    _RMS_START[0],
    tuple(sorted(rmsnorm_gpu.FAMILY.point(*_RMS_START).items())),
)


def _tile_entries() -> list[Entry]:
    """Return the product's Triton tiles in other shapes, its CUDA tiles with other depths, two wrong ones."""
    folder = data_dir("kernels") / MATRIX / "solutions"
    tiles, wmma = (
        (folder / one).read_text(encoding="utf-8") for one in ("tiles_triton.py", "wmma.cu")
    )
    found = []
    for shape, stages, group in product(_TILE_SHAPES, _STAGES, ("4", "8")):
        m, n, k = shape
        as_seed = (shape, stages, group) == (_TILE_SHAPES[0], "3", "8")
        if as_seed or int(stages) * (m + n) * k * 2 > _SHARED_BYTES:
            continue
        source = _put(
            tiles, _TILES, f"block_m, block_n, block_k = {shape} if m > 128 else (64, 64, 64)"
        )
        source = _put(source, "num_stages=3", f"num_stages={stages}")
        source = _put(source, "GROUP=8", f"GROUP={group}")
        found.append(Entry(".py", source, f"tiles {m} {n} {k}, {stages} stages, {group}", "triton"))
    for stages in _STAGES:
        source = _put(wmma, "kThreads = 256, kStages = 3;", f"kThreads = 256, kStages = {stages};")
        found.append(Entry(".cu", source, f"wmma, {stages} stages", "cuda", "dlpack"))
    for factor in ("1.1", "0.9"):
        source = _put(tiles, "total.to(tl.bfloat16)", f"(total * {factor}).to(tl.bfloat16)")
        found.append(Entry(".py", source, f"wrong by a factor of {factor}", "triton"))
    return found


def _put(text: str, old: str, new: str) -> str:
    """Replace what must be there exactly once; ValueError where the kernel has changed."""
    if len(re.findall(re.escape(old), text)) != 1:
        raise ValueError(f"{old!r}: expected once in the library's kernel")
    return text.replace(old, new)
