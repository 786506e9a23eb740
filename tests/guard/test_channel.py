"""What hostile runners did to their guard when the channel was fuzzed: each kind once, for real."""

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from guard_process import Guard, cpp, problem, python
from laboratory import Laboratory

from kernelarc_guard import control, processes
from kernelarc_guard.faults import MAX_DETAIL, SolutionFault
from kernelarc_guard.frames import recv_frame
from kernelarc_guard.report import Outcome, Report
from kernelarc_guard.returned import ReturnedResults
from kernelarc_guard.scratch import Scratch

RUN = "\ndef run(x, scale):\n    return torch.tanh(x) * scale\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with Laboratory(tmp_path_factory.mktemp("lab")) as one:
        yield one


def test_an_error_that_is_no_text_still_makes_a_verdict(guard: Guard) -> None:
    result = guard.ask(
        "screen", candidate=python("import torch\nraise ValueError('\\ud800')" + RUN)
    )
    assert (result.verdict, result.reason) == ("REJECT", "build_failed"), result.detail
    assert "\\ud800" in result.detail


def test_a_name_that_is_no_text_still_makes_a_verdict(guard: Guard) -> None:
    source = "import torch\nsetattr(torch.backends, '\\ud800', 1)" + RUN
    result = guard.ask("screen", candidate=python(source), correctness_only=True)
    assert any("\\ud800" in seen for seen in result.observations), result


def test_a_reply_that_drips_from_a_child_is_not_waited_for(lab: Laboratory) -> None:
    drip = (
        "import torch, os, stat, struct, time\n"
        "fd = next(f for f in range(3, 256) if os.path.exists(f'/proc/self/fd/{f}')\n"
        "          and stat.S_ISSOCK(os.fstat(f).st_mode))\n"
        "if os.fork() == 0:\n"
        "    for byte in struct.pack('<I', 60000) + b' ' * 60000:\n"
        "        os.write(fd, bytes([byte]))\n        time.sleep(0.5)\n"
        "os.kill(os.getpid(), 19)\n"
    )
    begin = time.monotonic()
    fault = lab.fault(drip + RUN)
    assert fault.reason == "tampering", fault.detail
    assert time.monotonic() - begin < 60


def test_a_frame_has_one_deadline_however_it_arrives() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.5)
        theirs.sendall(struct.pack("<I", 1000))
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.02):
                theirs.send(b" ")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            with pytest.raises(TimeoutError):
                recv_frame(ours)
        finally:
            stop.set()
            dripping.join()
        assert ours.gettimeout() == 0.5


def test_a_mapping_may_have_any_name(lab: Laboratory) -> None:
    source = (
        "import torch, mmap, os\nKEPT = []\n"
        "for name in ('\\x0ba b c d e memfd:', '\\u2028 1 2 3 4 5 memfd:kernelarc', '\\n0-1 x'):\n"
        "    fd = os.memfd_create(name)\n    os.ftruncate(fd, 4096)\n"
        "    KEPT.append(mmap.mmap(fd, 4096))\n"
    )
    arm = lab.start(source + RUN)
    lab.call(arm)
    assert arm.outputs(0)["y"].shape == (1000,)
    arm.close()


def test_a_signal_without_a_name_is_told_by_its_number(lab: Laboratory) -> None:
    fault = lab.fault("import torch, os\nos.kill(os.getpid(), 40)\n" + RUN)
    assert fault.reason == "crashed" and "signal 40" in fault.detail
    assert not lab.nursery.lost


def test_folders_that_nest_deeper_than_python_recurses_are_removed(lab: Laboratory) -> None:
    deep = "import torch, os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\n"
    arm = lab.start(deep + RUN)
    lab.call(arm)
    arm.keep_scratch()
    arm.close()
    assert not lab.nursery.lost
    lab.nursery.clean()
    arm = lab.start("import torch, os\nassert os.listdir('.') == []\n" + RUN)
    arm.close()


def test_nothing_of_a_hostile_tree_stays(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    folder = scratch.make("1")
    (folder / "shut" / "inner").mkdir(parents=True)
    (folder / "shut" / "inner" / "file").write_text("x")
    (folder / "outside").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    (folder / "shut" / "inner").chmod(0)
    (folder / "shut").chmod(0)
    scratch.drop("1")
    assert list(tmp_path.iterdir()) == [] and Path("/etc/passwd").exists()


def test_what_was_set_aside_lies_where_it_was_written(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    first = scratch.make("1")
    (first / "index").write_text(str(first / "kernel"))
    (first / "kernel").write_text("compiled")
    assert scratch.keep("1")
    second = scratch.make("2")  # the first one is not gone yet
    assert second == first and Path((second / "index").read_text()).read_text() == "compiled"
    (second / "kernel").write_text("changed")
    scratch.drop("1")
    assert (second / "kernel").read_text() == "changed"
    scratch.drop("2")
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]
    scratch.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_long_chain_of_processes_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "children", lambda pid: [pid + 1] if pid < 5000 else [])
    assert processes.descendants(1) == list(range(2, 5001))


def test_a_number_that_its_dtype_cannot_hold_is_the_solutions_fault() -> None:
    import mmap

    for kind, bits, dtype in (
        (control.KIND_INT, 10**12, "int8"),
        (control.KIND_FLOAT, control.scalar_bits(float("nan")), "int64"),
        (control.KIND_FLOAT, control.scalar_bits(float("inf")), "int32"),
    ):
        page = control.ControlPage(mmap.mmap(-1, control.SIZE))
        page.write_other(0, kind, bits)
        page.report(1, control.DONE, 1)
        with pytest.raises(SolutionFault) as fault:
            ReturnedResults(-1, [], []).read(page, {"y": (None, dtype)}, 0, hold=False)
        assert fault.value.reason == "bad_output_dtype"


def test_the_stride_of_a_dimension_of_one_may_be_anything() -> None:
    import mmap

    memory = os.memfd_create("runner")
    os.write(memory, struct.pack("<2f", 3.0, 4.0))
    page = control.ControlPage(mmap.mmap(-1, control.SIZE))
    page.write_tensor(0, control.DTYPES.index("float32"), (1,), (0,), 0)
    page.report(1, control.DONE, 1)
    outputs = ReturnedResults(memory, [], []).read(page, {"y": ((1,), "float32")}, 0, hold=False)
    os.close(memory)
    assert outputs["y"].view(torch.uint8).numel() == 4 and float(outputs["y"]) == 3.0


def test_a_boolean_output_that_was_not_written_is_not_taken_for_true(guard: Guard) -> None:
    asked = problem()
    asked["definition"]["outputs"]["y"]["dtype"] = "bool"
    asked["definition"]["reference"] = (
        "import torch\n\ndef run(x, scale):\n    return x + scale > -1.0\n"
    )
    for workload in asked["workloads"]:
        # Nearly all answers are true.
        workload["inputs"]["scale"]["value"] = 3.0
    half = (
        "#include <dlpack/dlpack.h>\n"
        'extern "C" int run(const DLTensor* x, double scale, DLTensor* y) {\n'
        "  const float* in = static_cast<const float*>(x->data);\n"
        "  bool* out = static_cast<bool*>(y->data);\n"
        "  for (int64_t i = 0; i < x->shape[0]; i += STEP) out[i] = in[i] + scale > -1.0;\n"
        "  return 0;\n}\n"
    )
    record = python(asked["definition"]["reference"])
    for step, passed in (("1", True), ("2", False)):
        result = guard.ask(
            "screen",
            problem=asked,
            record=record,
            candidate=cpp(half.replace("STEP", step)),
            correctness_only=True,
        )
        assert (result.stages["correctness"].state == "passed") is passed, result.detail
    assert result.reason == "bad_output_dtype", result.detail


def test_a_flood_of_one_observation_hides_no_other() -> None:
    report = Report("r", "screen", lambda _: None)
    for number in range(50_000):
        report.observe(f"own_clock: k.py:{number} reads time.time")
    report.observe("live_child: 1 processes it started ran before the first window")
    report.settle(Outcome("policy", SolutionFault("policy_forbidden", "x" * 10 * MAX_DETAIL)))
    result = report.result({}, 0.0)
    assert "live_child: 1 processes it started ran before the first window" in result.observations
    assert any(line == "own_clock: 49980 more" for line in result.observations)
    assert len(result.observations) < 30 and len(result.detail) < 2 * MAX_DETAIL
    assert result.detail.endswith("characters]")
