"""From what CUPTI recorded of a call to what an agent reads of it, and nothing that breaks it."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from kernelarc_guard.cuda import cupti_recorder, traced
from kernelarc_guard.cuda.cupti_recorder import NoCupti, Record, Recorder, plain_name
from kernelarc_guard.cuda.traced import told
from kernelarc_guard.cuda.tracing import NoTimeline, read_traces
from kernelarc_guard.kernel_names import bare_name
from kernelarc_guard.profile_model import Profile
from kernelarc_guard.timeline import MOST_PARTS, launching, timeline_of
from kernelarc_guard.timeline_model import MOST_RECORDS, Activity, Launch, Recorded, Traces
from kernelarc_mcp.timeline_text import timeline_lines

T0 = 1_764_500_000_000_000_000
"""Nanoseconds, as CUPTI's clock has them."""
REDUCE = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float,"
    " float, float, float>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float>)"
)


def kernel(name: str, at: int, ns: int, correlation: int = 1, stream: int = 7) -> Activity:
    """Return a kernel that began `at` nanoseconds after the first and took `ns`."""
    begin = T0 + at
    return Activity(
        kind="kernel",
        name=name,
        begin=begin,
        end=begin + ns,
        correlation=correlation,
        stream=stream,
        grid=(64, 1, 1),
        block=(128, 1, 1),
    )


def other(kind: str, at: int, ns: int) -> Activity:
    """Return a copy or a fill."""
    return Activity.model_validate(
        {
            "kind": kind,
            "name": kind,
            "begin": T0 + at,
            "end": T0 + at + ns,
            "correlation": 90,
            "stream": 7,
        }
    )


def recorded(activities: list[Activity], *, behind: bool = False, **more: Any) -> Recorded:
    """Return a call that was entered 20 us before its first activity and returned 5 us before."""
    began, returned = T0 - 20_000, T0 - 5_000
    launches = [
        Launch(correlation=number, begin=T0 - 7_200 + number, end=T0 - 6_000 + number)
        for number in sorted({one.correlation for one in activities})
    ]
    released = T0 - 100 if behind else None
    return Recorded(
        began=began,
        returned=returned,
        released=released,
        activities=activities,
        launches=launches,
        **more,
    )


NINE = [kernel(f"k{number}", 10_000 * number, 2_200, number) for number in range(9)]
TWO_STREAMS = [kernel("left", 0, 10_000, 1, 7), kernel("right", 1_000, 9_000, 2, 13)]


def test_a_timeline_has_offsets_gaps_busy_time_and_the_launch_by_correlation() -> None:
    behind = [kernel("a", 0, 2_000, 1), kernel("b", 2_500, 4_000, 2), kernel("b", 6_500, 1_500, 3)]
    plain = [*behind[:2], kernel("b", 60_000, 1_500, 3)]
    made = timeline_of(recorded(plain), recorded(behind, behind=True))
    assert made.queued
    assert (made.span_us, made.busy_us, made.largest_gap_us) == (8.0, 7.5, 0.5)
    assert (made.kernels, made.launches, made.streams) == (3, 3, 1)
    assert made.overhead_us == pytest.approx(7.199) and made.plain_span_us == 61.5
    assert made.host_us == 15.0
    a, b = made.parts
    assert (a.name, a.at_us, a.us, a.count, a.grid, a.block) == (
        "a",
        0.0,
        2.0,
        1,
        (64, 1, 1),
        (128, 1, 1),
    )
    assert (b.at_us, b.us, b.count, b.gap_us) == (2.5, 5.5, 2, 0.5)


def test_a_call_that_waits_for_the_device_is_shown_as_it_runs_on_an_idle_one() -> None:
    # It returned after the kernel ended that it was to be launched behind.
    waits = recorded(NINE).model_copy(update={"released": T0 - 5_001})
    made = timeline_of(recorded(NINE), waits)
    assert not made.queued
    assert made.said == (
        "Launch-bound: 9 kernels, busy 24 % of the span; the host launches too late, or waits in"
        " between."
    )
    assert "not launched ahead" in timeline_lines(made, 6)[1]
    assert not timeline_of(recorded(NINE), None).queued


@pytest.mark.parametrize(
    ("activities", "said"),
    [
        ([], "The call launched nothing on the device."),
        (NINE, "Launch-bound: 9 kernels, busy 24 % of the span; fuse them."),
        ([kernel("only", 0, 5_000)], "One kernel is the whole call."),
        (
            [kernel("void ns::big<4>(int)", 0, 93_000, 1), kernel("tail", 93_500, 7_000, 2)],
            "Of 2 kernels one kernel takes 93 %, big<4>.",
        ),
        (
            [
                kernel("step", 0, 50_000, 1),
                kernel("step", 50_100, 43_000, 2),
                kernel("t", 95_000, 9),
            ],
            "Of 3 kernels 2 launches of one kernel take 100 %, step.",
        ),
        (
            [other("copy", 0, 30_000), kernel("k", 31_000, 40_000, 2), other("fill", 72_000, 10)],
            "Copies and fills take 43 % of the time in 1 kernel, 1 copy and 1 fill.",
        ),
        (TWO_STREAMS, "2 kernels, in part at the same time: 19.0 us of work in 10.0."),
        (
            [kernel("a", 0, 5_000, 1), kernel("b", 5_500, 4_500, 2)],
            "2 kernels, busy 95 % of the span; the longest takes 53 %.",
        ),
        ([kernel("a", 0, 0, 1), kernel("b", 0, 0, 2)], "2 kernels, too short to be timed."),
    ],
)
def test_one_sentence_says_what_a_call_comes_to(activities: list[Activity], said: str) -> None:
    made = timeline_of(recorded(activities), recorded(activities, behind=True))
    assert made.said == said
    assert timeline_lines(made, 6)[0].endswith(said)


def test_kernels_at_the_same_time_are_busy_time_once_and_tell_their_stream() -> None:
    made = timeline_of(recorded(TWO_STREAMS), None)
    assert (made.busy_us, made.span_us, made.streams, made.largest_gap_us) == (10.0, 10.0, 2, 0.0)
    assert [one.stream for one in made.parts] == [0, 1]
    lines = timeline_lines(made, 6)
    assert "on 2 streams" in lines[1] and lines[3].endswith(", stream 1")


def test_a_graph_is_one_launch_of_many_kernels() -> None:
    nodes = [kernel(f"node{number}", 3_000 * number, 2_900, 5) for number in range(4)]
    made = timeline_of(recorded(nodes), recorded(nodes, behind=True))
    assert (made.kernels, made.launches) == (4, 1)
    assert "1 launch," in timeline_lines(made, 6)[1]


def test_calls_that_launch_are_found_by_correlation_and_the_outer_one_counts() -> None:
    activities = [kernel("a", 0, 10, 11), kernel("b", 20, 10, 12)]
    runtime = Launch(correlation=11, begin=100, end=200)
    driver = Launch(correlation=11, begin=120, end=190)
    unrelated = Launch(correlation=99, begin=50, end=60)
    later = Launch(correlation=12, begin=300, end=320)
    assert launching(activities, [driver, later, unrelated, runtime]) == [runtime, later]


def test_a_call_of_very_many_kernels_keeps_those_that_take_longest_and_says_the_rest() -> None:
    many = [
        kernel(f"name{number % 40}", 2_000 * number, 1_000 + number % 40, number)
        for number in range(400)
    ]
    made = timeline_of(recorded(many, left_out=7), None)
    assert len(made.parts) == MOST_PARTS and all(one.count == 10 for one in made.parts)
    assert [one.name for one in made.parts][-1] == "name39"
    lines = timeline_lines(made, 3)
    assert lines[-2] == "  and 370 more of its kernels, copies and fills"
    assert lines[-1] == "  7 more were recorded and are in no number here"


def test_the_text_of_an_ordinary_call_is_short() -> None:
    names = ["void at::native::vectorized_elementwise_kernel<4, at::x>(int)", REDUCE, "add", "mul"]
    call = [kernel(name, 3_000 * at, 2_400, at) for at, name in enumerate(names)]
    lines = timeline_lines(timeline_of(recorded(call), recorded(call, behind=True)), 6)
    assert lines[1] == (
        "  busy 9.6 of 11.4 us, 4 launches, largest gap 0.6 us; launched ahead, as when timed (without"
        " that 11.4 us); 7.2 us from the first launch to its work, on an idle device"
    )
    assert lines[3] == "  +3.0: 2.4 us reduce_kernel<512, 1, ReduceOp<float, Mea... 64 of 128"
    assert sum(map(len, lines)) < 600


def test_names_lose_their_arguments_and_namespaces_and_are_read_when_mangled() -> None:
    assert bare_name(REDUCE).startswith("reduce_kernel<512, 1, ReduceOp<float, MeanOps<float,")
    assert bare_name("void (anonymous namespace)::rms<float>(float*)") == "rms<float>"
    assert bare_name("nvjet_sm90_tst_256x128_NNT") == "nvjet_sm90_tst_256x128_NNT"
    assert plain_name("_ZN12_GLOBAL__N_13rmsEPKf") == "(anonymous namespace)::rms(float const*)"
    assert plain_name("_Z") == "_Z" and plain_name("_kernel") == "_kernel"


def test_what_was_left_behind_in_the_process_is_less_the_kernel_that_it_waited_behind() -> None:
    def seen(kind: Any, name: str, begin: int, end: int, correlation: int) -> Record:
        return Record(kind, name, begin, end, correlation, 7, (1, 1, 1), (32, 1, 1))

    records = [
        seen("call", "", 10, 20, 1),
        seen("kernel", "_ZN2at6native11spin_kernelEl", 30, 900, 1),
        seen("call", "", 110, 120, 2),
        seen("kernel", "mine", 905, 930, 2),
        seen("kernel", "no times", 0, 0, 3),
    ]
    found = told(records, 100, 200, behind=True)
    assert found.queued and found.released == 900
    assert [one.name for one in found.activities] == ["mine"] and found.left_out == 1
    assert [one.correlation for one in found.launches] == [2]
    many = [seen("kernel", "k", 1_000 + at, 1_001 + at, at) for at in range(MOST_RECORDS + 5)]
    assert told(many, 100, 200, behind=False).left_out == 5
    assert not told(records[2:], 100, 200, behind=True).queued, "no such kernel was seen"


def test_what_a_process_left_is_read_as_what_a_solution_may_have_written(tmp_path: Path) -> None:
    left = tmp_path / "traces.json"
    good = Traces(plain=recorded(NINE), behind=recorded(NINE, behind=True)).model_dump(mode="json")

    def refused(content: str) -> str:
        left.write_text(content)
        with pytest.raises(NoTimeline) as why:
            read_traces(left, "")
        assert str(why.value).isprintable() and len(str(why.value)) < 500
        return str(why.value)

    left.write_text(json.dumps(good))
    assert read_traces(left, "").kernels == 9
    assert "cannot be read: all of it" in refused("[" * 5000)
    assert "cannot be read" in refused('{"plain": 3, "a\x1b[2J": NaN}')
    for key, value in (("end", 5), ("begin", -1), ("end", 1 << 70), ("name", "n" * 401)):
        broken = json.loads(json.dumps(good))
        broken["behind"]["activities"][0][key] = value
        assert "cannot be read" in refused(json.dumps(broken))
    broken["behind"]["activities"] = good["behind"]["activities"] * 200
    assert "at most 1000 items" in refused(json.dumps(broken))
    assert "no call was recorded" in refused("{}")
    assert refused('{"refused": "CUPTI refuses x: ERROR (39)"}') == "CUPTI refuses x: ERROR (39)"
    assert "failed while it was recorded: E: ?[2J" in refused('{"error": "E: \\u001b[2J"}')
    assert "more than" in refused(" " * ((2 << 20) + 1))
    left.unlink()
    left.symlink_to("/dev/zero")
    with pytest.raises(NoTimeline, match="left nothing: Killed"):
        read_traces(left, "Killed\n")


def test_a_profile_of_before_there_were_timelines_is_still_read() -> None:
    old = {"device": "d", "workload": "w", "bottleneck": "unknown", "why": "No kernel."}
    assert Profile.model_validate(old).timeline is None


class FakeCupti(ModuleType):
    """cupti-python as far as it is used, with a device that does what `does` says."""

    class cuptiError(Exception):
        pass

    class ActivityKind:
        CONCURRENT_KERNEL, MEMCPY, MEMSET, DRIVER, RUNTIME = 10, 1, 2, 4, 5

    def __init__(self) -> None:
        super().__init__("cupti")
        self.cupti = self
        self.enabled: list[int] = []
        self.does: list[SimpleNamespace] = []
        self.refuses = ""
        self.error: Exception = FakeCupti.cuptiError("ERROR_X (39)")
        self._hand: Callable[[list[Any]], None] = lambda got: None

    def _may(self, what: str) -> None:
        if what == self.refuses:
            raise self.error

    def activity_register_callbacks(self, wants: Any, hand: Any) -> None:
        self._may("activity_register_callbacks")
        assert wants() == (8 << 20, 0)
        self._hand = hand

    def activity_enable(self, kind: int) -> None:
        self._may("activity_enable")
        self.enabled.append(kind)

    def activity_flush_all(self, flag: int) -> None:
        assert flag == 1
        self._hand(self.does)
        self.does = []

    def get_timestamp(self) -> int:
        return 77


@pytest.fixture
def cupti(monkeypatch: pytest.MonkeyPatch) -> FakeCupti:
    """Put a stand-in in the place of cupti-python."""
    made = FakeCupti()
    monkeypatch.setitem(sys.modules, "cupti", made)
    return made


def activity(kind: int, begin: int, **more: Any) -> SimpleNamespace:
    """Return an activity as cupti-python has it."""
    sizes = {f"{what}_{way}": 1 for what in ("grid", "block") for way in "xyz"}
    common = {"start": begin, "end": begin + 5, "correlation_id": 3, "stream_id": 7}
    return SimpleNamespace(kind=kind, **{**sizes, **common, **more})


def test_records_are_those_between_start_and_stop_in_order(cupti: FakeCupti) -> None:
    recorder = Recorder(calls=True)
    assert cupti.enabled[:3] == [10, 1, 2] and set(cupti.enabled[3:]) == {4, 5}
    cupti.does = [activity(10, 1, name="before")]
    recorder.start()
    cupti.does = [
        activity(10, 50, name="late", grid_x=64),
        activity(5, 20),
        activity(1, 30, copy_kind=8),
        activity(2, 40),
        activity(33, 45),
    ]
    found = recorder.stop()
    assert [(one.kind, one.name) for one in found] == [
        ("call", ""),
        ("copy", "copy device to device"),
        ("fill", "fill"),
        ("kernel", "late"),
    ]
    assert (found[3].grid, found[3].stream, found[3].correlation) == ((64, 1, 1), 7, 3)
    assert recorder.now() == 77
    assert recorder.stop() == found, "nothing is added once it has stopped"


def test_a_call_is_recorded_twice_the_second_time_behind_a_kernel(
    cupti: FakeCupti, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str] = []

    def spin(cycles: int) -> None:
        seen.append(f"spin {cycles}")
        cupti.does = [activity(10, 70, name="spin_kernel", correlation_id=1)]

    def call() -> None:
        seen.append("call")
        cupti.does += [activity(10, 90, name="mine"), activity(5, 80)]

    def prepared(job: Any, opened: Callable[[], object]) -> Callable[[], object]:
        assert job == {"a": "job"} and cupti.enabled, "CUPTI begins before the context"
        opened()
        return call

    ended: list[int] = []
    monkeypatch.setattr(traced, "prepared", prepared)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: seen.append("wait"))
    monkeypatch.setattr(torch.cuda, "_sleep", spin, raising=False)
    monkeypatch.setattr(os, "chdir", lambda path: None)
    monkeypatch.setattr(os, "_exit", ended.append)
    job, left = tmp_path / "job.json", tmp_path / "traces.json"
    job.write_text('{"a": "job"}')
    monkeypatch.setattr(sys, "argv", ["traced", str(job), str(left)])
    traced.main()
    assert seen == ["wait", "call", "wait", "wait", "spin 2000000", "call", "wait"]
    traces = Traces.model_validate_json(left.read_bytes())
    assert traces.plain is not None and not traces.plain.queued
    assert traces.behind is not None and traces.behind.released == 75
    assert [one.name for one in traces.behind.activities] == ["mine"]
    assert [one.correlation for one in traces.plain.launches] == [3]
    cupti.refuses = "activity_enable"
    traced.main()
    with pytest.raises(NoTimeline, match="CUPTI refuses activity_enable: ERROR_X"):
        read_traces(left, "")
    assert ended == [0, 0]


def test_calls_of_the_host_are_traced_only_where_they_are_asked_for(cupti: FakeCupti) -> None:
    Recorder()
    assert cupti.enabled == [10, 1, 2]


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        (
            "activity_enable",
            FakeCupti.cuptiError("ERROR_X (39)"),
            "refuses activity_enable: ERROR_X",
        ),
        (
            "activity_register_callbacks",
            RuntimeError("CUDA driver is not found"),
            "cannot be used: CUDA driver is not found",
        ),
    ],
)
def test_why_cupti_records_nothing_is_said(
    cupti: FakeCupti, what: str, error: Exception, said: str
) -> None:
    cupti.refuses, cupti.error = what, error
    with pytest.raises(NoCupti, match=said):
        Recorder()


def test_without_the_package_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupti", None)
    with pytest.raises(NoCupti, match="cupti-python cannot be loaded"):
        Recorder()
    assert "extra" in cupti_recorder.ABSENT
