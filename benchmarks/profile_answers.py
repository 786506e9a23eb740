"""Profile a launch-bound, a bandwidth-bound and a matrix-bound call on a GPU; print class, time and size.

    python benchmarks/profile_answers.py [--device cuda:0] [--only NAME] [--out DIR] [--json FILE]

The size is that of the whole answer that an agent gets, as JSON. Needs Nsight Compute; touches no clock.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import anyio

from kernelarc_guard.inquiries import Profiled, ProfileRequest
from kernelarc_guard.problem import Problem, Workload, read_problem
from kernelarc_guard.solution import read_solution
from kernelarc_mcp.host.guard_client import GuardClient
from kernelarc_mcp.host.profile_step import ProfileStep
from kernelarc_mcp.host.profiles import view_of

ROOT: Final = Path(__file__).resolve().parent.parent
SOLUTIONS: Final = ROOT / "tests" / "gpu" / "solutions"
LADDER: Final = ROOT / "kernels" / "gemm_bf16" / "solutions"
SECONDS: Final = 300.0


@dataclass(frozen=True)
class Subject:
    """One call to profile."""

    name: str
    expected: str
    problem: str
    axes: dict[str, int]
    solution: Path
    record: Path | None = None


SUBJECTS: Final = (
    Subject(
        "rmsnorm, torch operators, 64 x 1024",
        "launch-bound",
        "rmsnorm",
        {"rows": 64, "hidden": 1024},
        SOLUTIONS / "rms_torch.py",
    ),
    Subject(
        "rmsnorm, CUDA C++, 16384 x 4096",
        "bandwidth-bound",
        "rmsnorm",
        {"rows": 16384, "hidden": 4096},
        SOLUTIONS / "rms_cuda.cu",
    ),
    Subject(
        "rmsnorm, Triton, 16384 x 4096",
        "bandwidth-bound",
        "rmsnorm",
        {"rows": 16384, "hidden": 4096},
        SOLUTIONS / "rms_triton.py",
        SOLUTIONS / "rms_cuda.cu",
    ),
    Subject(
        "gemm bf16, cuBLAS, 4096^3",
        "matrix-bound",
        "gemm_bf16",
        {"m": 4096, "n": 4096, "k": 4096},
        LADDER / "cublas.py",
    ),
)


@dataclass
class Row:
    """What one profile was."""

    name: str
    expected: str
    found: str
    seconds: float
    """From request to answer, the device's lock included."""
    characters: int
    kernels: int
    text: str


def problem_of(subject: Subject) -> Problem:
    """Return the subject's problem with its one workload."""
    whole = read_problem(ROOT / "kernels" / subject.problem, "workload.gpu.jsonl")
    only = Workload(uuid="profiled", axes=subject.axes, tolerance=whole.workloads[0].tolerance)
    return Problem(definition=whole.definition, workloads=[only], folder=whole.folder)


def request_of(subject: Subject, device: str, out: str) -> ProfileRequest:
    """Return the request for a subject's profile; raw reports go below `out`, if that is not empty."""
    problem = problem_of(subject)
    definition = problem.definition
    record = None if subject.record is None else read_solution(subject.record, definition)
    return ProfileRequest(
        id="profile",
        device=device,
        cache_dir=str(Path(tempfile.gettempdir()) / "kernelarc-profile-cache"),
        problem=problem,
        candidate=read_solution(subject.solution, definition),
        record=record,
        workload="profiled",
        reports=str(Path(out) / re.sub(r"[^\w.-]+", "_", subject.name)) if out else "",
    )


async def profile(guard: GuardClient, subject: Subject, device: str, out: str) -> Row:
    """Profile one subject."""
    request = request_of(subject, device, out)
    begin = time.monotonic()
    answer = await guard.inquire(request, deadline=SECONDS)
    seconds = time.monotonic() - begin
    assert isinstance(answer, Profiled)
    step = ProfileStep("s001", "agent-1", "profiled", "", done=True, answer=answer)
    view = view_of(step)
    return Row(
        name=subject.name,
        expected=subject.expected,
        found=answer.profile.bottleneck,
        seconds=round(seconds, 1),
        characters=len(view.model_dump_json()),
        kernels=len(answer.profile.kernels),
        text=view.profile,
    )


async def measure(subjects: list[Subject], device: str, out: str) -> list[Row]:
    """Profile all subjects with one guard."""
    async with GuardClient(
        sys.executable, Path(out or tempfile.gettempdir()) / "guard.log"
    ) as guard:
        return [await profile(guard, subject, device, out) for subject in subjects]


def main() -> None:
    """Print a line for each subject, then what an agent reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--only", default="", help="subjects whose name has this in it")
    parser.add_argument("--out", default="", help="keep raw reports there")
    parser.add_argument("--json", default="", help="write the rows there")
    given = parser.parse_args()
    subjects = [one for one in SUBJECTS if given.only in one.name]
    rows = anyio.run(measure, subjects, given.device, given.out)
    print("| call | expected | found | seconds | characters |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {row.name} | {row.expected} | {row.found} | {row.seconds} | {row.characters} |")
    for row in rows:
        print(f"\n{row.name}\n{row.text}")
    if given.json:
        Path(given.json).write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    sys.exit(any(row.found != row.expected for row in rows))


if __name__ == "__main__":
    main()
