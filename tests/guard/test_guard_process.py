"""The whole cascade through a real guard process on small problems."""

import json
import os
from pathlib import Path

import pytest
from guard_process import DLPACK, REFERENCE, SCHEDULE, SLOW, Guard, cpp, problem, python

from kernelarc_guard.lease import DeviceLease
from kernelarc_guard.processes import children
from kernelarc_guard.protocol import Refusal, Result

BODY = "import torch\n\ndef run(x, scale):\n    "


def screened(guard: Guard, source: str) -> Result:
    """Screen a value-returning torch solution."""
    return guard.ask("screen", candidate=python(source))


@pytest.mark.parametrize(
    ("candidate", "name"),
    [
        (python(REFERENCE), "torch, returning"),
        (
            python(
                "import torch\n\ndef run(x, scale, y):\n"
                "    torch.tanh(x, out=y)\n    y.mul_(scale)\n",
                passing=True,
            ),
            "torch, destination passing",
        ),
        (
            python(
                "import numpy as np\n\ndef run(x, scale):\n"
                "    return (np.tanh(x) * np.float32(scale)).astype(np.float32)\n",
                language="numpy",
            ),
            "numpy",
        ),
        (cpp(DLPACK), "C++ over dlpack"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_kind_of_right_solution_reaches_timing(
    guard: Guard, candidate: dict[str, object], name: str
) -> None:
    result = guard.ask("screen", candidate=candidate)
    assert result.verdict in (None, "ACCEPT", "REVERT"), name
    assert [one.state for one in result.workloads] == ["passed", "passed"]
    assert result.stages["correctness"].state == "passed"
    assert result.pairs and result.decision is not None
    assert result.protection["sandbox"] == "bubblewrap+landlock"
    assert all(one.record_us and one.candidate_us for one in result.workloads)


def test_a_tvm_ffi_solution_runs_in_both_styles(guard: Guard) -> None:
    head = (
        "#include <cmath>\n#include <tvm/ffi/container/tensor.h>\n#include <tvm/ffi/function.h>\n"
    )
    passing = head + (
        "namespace ffi = tvm::ffi;\n"
        "void run(ffi::TensorView x, double scale, ffi::TensorView y) {\n"
        "  const float* in = static_cast<const float*>(x.data_ptr());\n"
        "  float* out = static_cast<float*>(y.data_ptr());\n"
        "  for (int64_t i = 0; i < x.size(0); ++i) out[i] = std::tanh(in[i]) * scale;\n}\n"
        "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n"
    )
    result = guard.ask("screen", candidate=cpp(passing, binding="tvm-ffi"))
    assert [one.state for one in result.workloads] == ["passed", "passed"], result.detail


def test_a_large_gain_is_promising_and_then_kept(guard: Guard) -> None:
    screen = guard.ask("screen", record=python(SLOW), candidate=python(REFERENCE))
    assert (screen.verdict, screen.decision and screen.decision.outcome) == (None, "promising")
    assert screen.calibration is not None
    kept = guard.ask(
        "confirm",
        record=python(SLOW),
        candidate=python(REFERENCE),
        calibration=screen.calibration.model_dump(),
        stake=0.01 / 16,
    )
    assert (kept.verdict, kept.reason) == ("KEEP", "confirmed"), kept.detail
    assert kept.decision is not None and kept.decision.lower is not None
    assert kept.decision.lower > 1.003, "a KEEP exceeds delta; how far is up to the noise"
    assert len(kept.pairs) == kept.decision.pairs >= 7
    steps = [one.done for one in guard.progress]
    assert steps == sorted(set(steps)), "progress must strictly increase"


def test_right_but_slow_is_reverted_as_slower(guard: Guard) -> None:
    result = guard.ask("screen", candidate=python(SLOW))
    assert (result.verdict, result.stage) == ("REVERT", "timing")
    # On a machine so noisy that calibration saw anything, even this is only "not shown close".
    assert result.reason in ("slower", "not_proven_close")


def test_wrong_but_fast_is_reverted_and_names_the_element(guard: Guard) -> None:
    result = screened(guard, BODY + "return x * scale\n")
    assert (result.verdict, result.reason, result.stage) == (
        "REVERT",
        "wrong_result",
        "correctness",
    )
    assert "output y at [" in result.detail
    assert result.stages["timing"].state == "not evaluated"


GATE = {
    "policy_syntax": (BODY + "return (\n", "policy"),
    "build_failed": ("import torch\nraise RuntimeError('no such unit')\n", "build"),
    "raised": (BODY + "raise ValueError('odd size')\n", "smoke"),
    "crashed": (BODY + "import ctypes\n    ctypes.string_at(0)\n", "smoke"),
    "bad_output_count": (BODY + "return x * scale, x\n", "smoke"),
    "bad_output_type": (BODY + "return [float(v) for v in x[:1]][0]\n", "smoke"),
    "bad_output_shape": (BODY + "return torch.tanh(x)[:1] * scale\n", "smoke"),
    "bad_output_dtype": (BODY + "return torch.tanh(x.double()) * scale\n", "smoke"),
    "output_alias": (BODY + "return x\n", "smoke"),
    "input_modified": (BODY + "return x.tanh_().clone() * scale\n", "smoke"),
}


@pytest.mark.parametrize("reason", GATE)
def test_a_failure_at_the_gate_is_rejected_with_its_reason(guard: Guard, reason: str) -> None:
    source, stage = GATE[reason]
    result = screened(guard, source)
    assert (result.verdict, result.reason, result.stage) == ("REJECT", reason, stage)
    assert result.detail
    after = screened(guard, REFERENCE)
    assert after.stages["correctness"].state == "passed", "the next submission is judged normally"


def test_an_endless_loop_is_rejected_as_timeout(guard: Guard) -> None:
    schedule = SCHEDULE | {"start_seconds": 2.0}
    loop = python(BODY + "while True:\n        pass\n")
    result = guard.ask("screen", candidate=loop, schedule=schedule)
    assert (result.verdict, result.reason, result.stage) == ("REJECT", "timeout", "smoke")
    at_import = python("while True:\n    pass\n")
    result = guard.ask("screen", candidate=at_import, schedule=schedule)
    assert (result.verdict, result.reason) == ("REJECT", "timeout")


def test_a_crash_on_a_large_workload_is_reverted_and_loses_no_other_result(guard: Guard) -> None:
    source = (
        BODY + "if x.numel() > 10000:\n        import ctypes\n        ctypes.string_at(0)\n"
        "    return torch.tanh(x) * scale\n"
    )
    result = screened(guard, source)
    assert (result.verdict, result.reason, result.stage) == ("REVERT", "crashed", "correctness")
    assert [one.state for one in result.workloads] == ["passed", "failed"]


def test_c_source_that_does_not_compile_is_rejected_with_structured_errors(guard: Guard) -> None:
    result = guard.ask("screen", candidate=cpp(DLPACK.replace("return 0;", "return zero;")))
    assert (result.verdict, result.reason, result.stage) == ("REJECT", "build_failed", "build")
    error = result.build[0]
    assert (error.file, error.severity) == ("kernel.cpp", "error")
    assert error.line > 0 and "zero" in error.message


def test_writing_past_an_output_is_found_by_its_canary(guard: Guard) -> None:
    beyond = DLPACK.replace("return 0;", "out[x->shape[0] + 3] = 1.0f; return 0;")
    result = guard.ask("screen", candidate=cpp(beyond))
    assert (result.verdict, result.reason) == ("REJECT", "out_of_bounds_write")


def test_an_output_left_unwritten_is_wrong_whatever_was_there_before(guard: Guard) -> None:
    partial = DLPACK.replace("i < x->shape[0]", "i < x->shape[0] - 1")
    result = guard.ask("screen", candidate=cpp(partial))
    assert (result.verdict, result.reason) == ("REVERT", "wrong_nonfinite")


def test_a_result_that_a_thread_writes_later_is_not_there(guard: Guard) -> None:
    source = """import threading, time
import torch

def run(x, scale):
    y = torch.zeros_like(x)
    def late():
        time.sleep(0.05)
        y.copy_(torch.tanh(x) * scale)
    threading.Thread(target=late, daemon=True).start()
    return y
"""
    result = screened(guard, source)
    assert result.verdict == "REVERT"
    assert result.reason in ("late_write", "tampering")


def test_the_same_binary_as_before_is_a_duplicate(guard: Guard) -> None:
    first = guard.ask("screen", candidate=cpp(DLPACK))
    assert first.binary
    again = guard.ask(
        "screen",
        candidate=cpp(DLPACK.replace("#include <cmath>", "// other words\n#include <cmath>")),
        known_binaries={first.binary: "sub_1"},
    )
    assert (again.verdict, again.reason, again.stage) == ("REJECT", "duplicate", "duplicate")
    assert "sub_1" in again.detail


def test_a_record_that_fails_is_the_requests_fault(guard: Guard) -> None:
    answer = guard.answer("screen", record=python(BODY + "return x\n"), candidate=python(SLOW))
    assert isinstance(answer, Refusal)
    assert "the record failed (output_alias)" in answer.error


def test_a_problem_without_inputs_to_redraw_never_keeps(guard: Guard) -> None:
    fixed = problem()
    fixed["definition"]["inputs"] = {"scale": {"shape": None, "dtype": "float32"}}
    fixed["definition"]["outputs"] = {"y": {"shape": ["n"], "dtype": "float32"}}
    fixed["definition"]["axes"] = {"n": {"type": "const", "value": 4}}
    fixed["definition"]["reference"] = (
        "import torch\n\ndef run(scale):\n    return torch.full((4,), scale)\n"
    )
    for workload in fixed["workloads"]:
        workload["axes"] = {}
    slow = "import torch\n\ndef run(scale):\n" + "    torch.randn(3000).sort()\n" * 9
    request = {
        "problem": fixed,
        "record": python(slow + "    return torch.full((4,), scale)\n"),
        "candidate": python(
            "import torch\n\ndef run(scale):\n    return torch.full((4,), scale)\n"
        ),
    }
    screen = guard.ask("screen", **request)
    assert screen.decision is not None and screen.decision.outcome == "promising"
    assert screen.calibration is not None
    result = guard.ask(
        "confirm", calibration=screen.calibration.model_dump(), stake=0.000625, **request
    )
    assert (result.verdict, result.reason) == ("ACCEPT", "fixed_inputs")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"not json", "JSON"),
        (b"[]", "request"),
        (b'{"op": "melt", "id": "r1"}', "op"),
        (json.dumps({"op": "screen", "id": "r1"}).encode(), "cache_dir"),
        (b"\xff\xfe", "JSON"),
    ],
)
def test_a_request_that_is_none_is_refused_and_the_guard_goes_on(
    guard: Guard, line: bytes, says: str
) -> None:
    answer = guard.send(line)
    assert isinstance(answer, Refusal)
    assert says in answer.error
    assert screened(guard, REFERENCE).stages["smoke"].state == "passed"


def test_another_device_is_refused_by_name(guard: Guard) -> None:
    answer = guard.answer("screen", candidate=python(REFERENCE), device="cuda:99")
    assert isinstance(answer, Refusal)
    assert "'cuda:99'" in answer.error and "'cpu'" in answer.error


def test_the_guard_and_its_children_end_when_stdin_closes(tmp_path: Path) -> None:
    guard = Guard(tmp_path)
    guard.ask("screen", candidate=python(REFERENCE))
    started = children(guard.process.pid)
    assert started, "a nursery is alive"
    guard.close()
    assert not any(_alive(pid) for pid in started)


def test_the_device_is_leased_to_one_comparison_at_a_time(guard: Guard) -> None:
    results = [screened(guard, REFERENCE) for _ in range(2)]
    leases = [one.lease for one in results if one.lease is not None]
    assert len(leases) == 2
    assert leases[0].from_ns < leases[0].to_ns <= leases[1].from_ns
    with DeviceLease("cpu") as mine:
        mine.ends()
    assert mine.describe().from_ns >= leases[1].to_ns


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_a_calibration_over_nurseries_keeps_every_pair_in_order(guard: Guard) -> None:
    result = guard.ask("calibrate", pairs=2, nurseries=3)
    assert (result.verdict, result.op) == (None, "calibrate")
    calibration = result.calibration
    assert calibration is not None
    assert calibration.nurseries == [2, 2, 2]
    assert len(result.pairs) == len(calibration.values) == 6
    assert calibration.shared_bias is not None and calibration.delta >= 0.3
    assert all(one.record_us for one in result.workloads)
