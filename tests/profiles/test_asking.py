"""Asking a real guard: what it counts, what it says of a solution on a CPU, and what it refuses."""

from pathlib import Path

from guard_process import DLPACK, REFERENCE, cpp, python
from profiles.conftest import Ask

from kernelarc_guard.inquiries import Counted, Profiled
from kernelarc_guard.protocol import Refusal

WIDER = DLPACK.replace("std::tanh(in[i]) * scale", "in[i] * scale + in[i] / 3.0f")


def test_a_guard_counts_bytes_and_tells_what_its_processor_can_do(ask: Ask) -> None:
    answer = ask("count")
    assert isinstance(answer, Counted), answer
    large = answer.work[1]
    assert (large.uuid, large.read_bytes, large.written_bytes) == ("large", 240_000, 240_000)
    assert large.operations == {}, "tanh is no matrix product"
    assert large.other_operations == 120_000
    roofs = answer.roofs
    assert roofs.memory is not None and roofs.writes is not None
    assert roofs.memory.per_second > 1e8 and roofs.matrix["float32"].per_second > 1e8
    assert "measured" in roofs.memory.source and roofs.memory.date
    assert answer.lease is not None and answer.lease.to_ns > answer.lease.from_ns


def test_a_profile_on_a_cpu_says_rates_and_machine_code_and_that_it_has_no_counters(
    ask: Ask, tmp_path: Path
) -> None:
    answer = ask(
        "profile",
        candidate=cpp(WIDER),
        record=cpp(DLPACK),
        workload="large",
        call_us=100.0,
        reports=str(tmp_path / "kept"),
        rulers={
            "empty_window_ns": 9_000,
            "write_bytes_per_second": 2e10,
            "copy_bytes_per_second": 1e10,
        },
    )
    assert isinstance(answer, Profiled), answer
    profile = answer.profile
    assert any("no counters" in note for note in profile.notes)
    assert profile.roofs["memory"] > 0 and profile.why
    assert profile.code is not None and profile.code.instructions > 20
    assert "instructions" in profile.code_against_record
    assert len(answer.files) == 2
    assert all((tmp_path / "kept" / name).stat().st_size for name in answer.files)
    assert answer.lease is not None and answer.seconds > 0
    assert answer.protection["sandbox"]


def test_a_profile_of_python_that_was_never_timed_says_so(ask: Ask) -> None:
    answer = ask("profile", candidate=python(REFERENCE), workload="small")
    assert isinstance(answer, Profiled), answer
    assert answer.profile.bottleneck == "unknown"
    assert "never timed" in answer.profile.why
    assert answer.profile.code is None
    assert any("is Python" in note for note in answer.profile.notes)


def test_what_cannot_be_profiled_is_refused_in_a_sentence(ask: Ask) -> None:
    for more, said in (
        ({"candidate": python(REFERENCE), "workload": "gone"}, "workload 'gone' is none of small"),
        ({"candidate": cpp("int broken"), "workload": "small"}, "the solution does not build"),
        (
            {"candidate": python("import socket\n" + REFERENCE), "workload": "small"},
            "the policy refuses the solution",
        ),
        (
            {"candidate": python(REFERENCE), "record": cpp("int broken"), "workload": "small"},
            "the record does not build",
        ),
    ):
        answer = ask("profile", **more)
        assert isinstance(answer, Refusal) and said in answer.error, answer
        assert answer.lease is not None and answer.lease.to_ns > answer.lease.from_ns
