"""On a GPU: the profiler names the right bottleneck, in an answer that is short."""

import anyio
import pytest
from gpu_guard import GpuGuard

from benchmarks.profile_answers import SUBJECTS, Subject, measure
from kernelarc_guard.cuda.ncu import find_ncu

pytestmark = pytest.mark.needs_gpu


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda one: one.name)
def test_a_call_is_of_the_class_that_it_was_written_for(guard: GpuGuard, subject: Subject) -> None:
    if find_ncu() is None:
        pytest.skip("Nsight Compute is not installed here")
    (row,) = anyio.run(measure, [subject], "cuda:0", "")
    assert row.found == subject.expected, row.text
    assert row.characters < 2000
