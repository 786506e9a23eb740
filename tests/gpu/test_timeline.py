"""On a GPU: CUPTI in a profile's own process sees what a call does, and when."""

import sys
from pathlib import Path

import anyio
import pytest
from gpu_guard import FOLDER

from benchmarks.profile_answers import SECONDS, Subject, request_of
from kernelarc_guard.cuda.cupti_recorder import ABSENT, installed
from kernelarc_guard.inquiries import Profiled
from kernelarc_guard.timeline_model import Timeline
from kernelarc_mcp.host.guard_client import GuardClient

pytestmark = pytest.mark.needs_gpu
PAUSE_US = 10_000.0
"""Of the host, before the last of the three kernels."""


def timeline_of(name: str, folder: Path, axes: dict[str, int]) -> Timeline:
    """Profile a solution of RMSNorm with a guard of its own and return the timeline."""
    if not installed():
        pytest.skip(ABSENT)

    async def ask() -> object:
        request = request_of(Subject(name, "", "rmsnorm", axes, FOLDER / name), "cuda:0", "")
        async with GuardClient(sys.executable, folder / "guard.log") as guard:
            return await guard.inquire(request, deadline=SECONDS)

    answer = anyio.run(ask)
    assert isinstance(answer, Profiled), answer
    assert answer.profile.timeline is not None, answer.profile.notes
    return answer.profile.timeline


def test_three_kernels_and_a_pause_are_seen_in_order(tmp_path: Path) -> None:
    seen = timeline_of("three_kernels.py", tmp_path, {"rows": 64, "hidden": 1024})
    assert [one.name for one in seen.parts] == [
        f"{n}_of_three" for n in ("first", "second", "third")
    ]
    assert (seen.kernels, seen.copies, seen.fills, seen.left_out) == (3, 0, 0, 0)
    assert (seen.launches, seen.streams) == (3, 1)
    assert all(one.grid == (64, 1, 1) and one.block == (128, 1, 1) for one in seen.parts)
    assert not seen.queued, "it waits for the device before its last kernel"
    first, second, third = seen.parts
    assert first.at_us == 0.0 < second.at_us < third.at_us
    # Each is some microseconds of work; a second is far more than anything but a hang takes.
    assert all(0.1 < one.us < 1e6 for one in seen.parts)
    assert seen.largest_gap_us >= third.gap_us > 0.9 * PAUSE_US
    assert seen.span_us > third.gap_us + seen.busy_us - 1.0
    assert 0.0 < seen.busy_us <= sum(one.us for one in seen.parts) + 0.01
    assert seen.overhead_us is not None and 0.0 <= seen.overhead_us < 1e6
    assert seen.host_us is not None and seen.host_us > PAUSE_US
    assert seen.said.startswith("Launch-bound: 3 kernels, busy ")


def test_a_call_that_does_not_wait_has_a_timeline_of_all_its_kernels(tmp_path: Path) -> None:
    seen = timeline_of("rms_torch.py", tmp_path, {"rows": 64, "hidden": 1024})
    assert (seen.kernels, seen.streams) == (6, 1)
    whole = seen.kernels + seen.copies + seen.fills
    assert seen.launches == whole == sum(one.count for one in seen.parts)
    assert 0.0 < seen.busy_us <= seen.span_us < 1e6
    assert seen.plain_span_us is not None and seen.overhead_us is not None
