"""What get_brief says about writing a candidate: examples that compile, pages, and no trap left out."""

import json
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from host_places import make_problem, make_settings

from kernelarc_guard.definition import KernelArcKeys
from kernelarc_guard.problem import Definition, Problem, read_problem
from kernelarc_guard.solution import seed_solution
from kernelarc_guard.workload import Tolerance
from kernelarc_mcp import machine
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.brief import MOST, ROOM
from kernelarc_mcp.host.correctness import correctness_view
from kernelarc_mcp.host.envelope import languages_of
from kernelarc_mcp.host.errors import BadRequest
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.interface import interface_text
from kernelarc_mcp.machine import describe_device
from kernelarc_mcp.views import CalibrationView, RulersView, WorkloadView

HEADERS: Final = Path(sysconfig.get_paths()["purelib"]) / "tvm_ffi" / "include"
LIBRARY: Final = sorted(path.parent for path in data_dir("kernels").glob("*/definition.json"))


def definition_of(**changes: Any) -> Definition:
    base: dict[str, Any] = {
        "name": "scaled",
        "axes": {"n": {"type": "var"}},
        "inputs": {
            "x": {"shape": ["n"], "dtype": "float32"},
            "scale": {"shape": None, "dtype": "float32"},
            "shift": {"shape": None, "dtype": "int64"},
        },
        "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
        "reference": "def run(x, scale, shift):\n    return x * scale + shift\n",
    }
    return Definition.model_validate(base | changes)


def example(text: str, binding: str) -> str:
    """Return the indented lines of C++ under a binding's heading."""
    lines = text[text.index(f"binding {binding}") :].splitlines()[1:]
    shown = []
    for line in lines:
        if not line.startswith("    "):
            break
        shown.append(line.removeprefix("    "))
    return "\n".join(shown).replace("{ ... }", "{}") + "\n"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("binding", ["dlpack", "tvm-ffi"])
def test_the_examples_of_a_gpu_brief_compile(tmp_path: Path, binding: str) -> None:
    half = definition_of(
        inputs={"x": {"shape": ["n"], "dtype": "bfloat16"}},
        reference="def run(x):\n    return x.float()\n",
    )
    source = tmp_path / "example.cu"
    source.write_text(example(interface_text(half, languages_of("cuda:0")), binding))
    command = ["nvcc", "-std=c++17", "-cuda", "-isystem", str(HEADERS), str(source)]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + source.read_text()


@pytest.mark.parametrize("binding", ["dlpack", "tvm-ffi"])
def test_the_examples_of_a_cpu_brief_compile(tmp_path: Path, binding: str) -> None:
    text = interface_text(definition_of(), languages_of("cpu"))
    source = tmp_path / "example.cpp"
    source.write_text(example(text, binding))
    command = ["g++", "-std=c++17", "-fsyntax-only", "-isystem", str(HEADERS), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + source.read_text()


def test_threads_and_loose_arithmetic_are_offered_only_where_the_problem_allows_them() -> None:
    one = interface_text(definition_of(), languages_of("cpu"))
    assert "-fopenmp" not in one and "-ffast-math" in one
    two = definition_of(kernelarc={"threads": 2, "nonfinite_outputs": True})
    text = interface_text(two, languages_of("cpu"))
    assert "-fopenmp" in text and "-ffast-math" not in text


def test_what_equal_bits_and_infinity_are_held_to_follows_the_problem() -> None:
    means = correctness_view(KernelArcKeys()).means
    assert "Bits may differ" in means and "stays finite and within" in means
    strict = KernelArcKeys(determinism="bitwise", nonfinite_outputs=True)
    means = correctness_view(strict).means
    assert "same bits" in means and "NaN and infinity must stand" in means
    assert "Bits may differ" not in means and "stays within" in means


def test_a_python_number_is_passed_by_value_in_c() -> None:
    text = interface_text(definition_of(), languages_of("cpu"))
    assert "int run(const DLTensor* x, double scale, int64_t shift, DLTensor* y)" in text


def test_sixteen_bits_are_named_as_the_device_has_them() -> None:
    half = definition_of(
        inputs={"x": {"shape": ["n"], "dtype": "bfloat16"}},
        reference="def run(x):\n    return x.float()\n",
    )
    assert "bfloat16 comes as its 16 bits" in interface_text(half, languages_of("cpu"))
    gpu = interface_text(half, languages_of("cuda:0"))
    assert "const __nv_bfloat16*" in gpu and "comes as its 16 bits" not in gpu


def test_a_gpu_brief_speaks_of_streams_and_architecture_and_a_cpu_brief_does_not() -> None:
    gpu = interface_text(definition_of(), languages_of("cuda:0"))
    cpu = interface_text(definition_of(), languages_of("cpu"))
    for words in ("default stream", "give no -arch", "device memory"):
        assert words in gpu and words not in cpu
    assert "-march=native" in cpu and "-march=native" not in gpu


def test_a_gpu_campaign_offers_no_language_that_cannot_reach_its_memory() -> None:
    assert not {"cpp", "numpy"} & set(languages_of("cuda:0"))
    assert {"cuda", "triton", "python"} <= set(languages_of("cuda:0"))


@pytest.mark.parametrize(
    ("dtype", "said", "unsaid"),
    [("bfloat16", "partial sums kept in 16 bits", "TF32"), ("float32", "TF32", "FP8")],
)
def test_which_precision_is_refused_is_said_for_the_problems_own_types(
    dtype: str, said: str, unsaid: str
) -> None:
    means = correctness_view(KernelArcKeys(), {dtype}, {dtype}).means
    assert said in means and unsaid not in means and "Integer outputs" not in means
    assert "Integer outputs" in correctness_view(KernelArcKeys(), {dtype}, {"int64"}).means


def test_a_new_agent_is_led_through_lens_and_memory_to_its_first_candidate(
    tmp_path: Path,
) -> None:
    Host.create(tmp_path / "campaign", make_settings(), make_problem(), None)
    host = Host.open(tmp_path / "campaign")
    brief = host.brief("ada")
    assert brief.next_step.index("get_strategy_lens") < brief.next_step.index("read_memory")
    assert "submit_candidate" not in brief.next_step
    assert "read_memory" in host.lens("ada").next_step
    assert "get_strategy_lens" not in host.lens("ada").next_step
    onward = host.memory("ada").next_step
    assert (
        "call submit_candidate" in onward and "first move" in onward and "next idea" not in onward
    )
    host.close()


def test_what_all_workloads_are_held_to_is_said_once(tmp_path: Path) -> None:
    problem = make_problem()
    other = problem.workloads[0].model_copy(
        update={"uuid": "loose", "tolerance": Tolerance(max_atol=1.0)}
    )
    mixed = Problem(definition=problem.definition, workloads=[*problem.workloads, other])
    Host.create(tmp_path / "campaign", make_settings(), mixed, None)
    host = Host.open(tmp_path / "campaign")
    brief = host.brief("ada")
    assert brief.tolerance is None
    assert all(one.tolerance is not None for one in brief.workloads)
    host.close()


def test_static_inputs_are_named_with_how_to_key_what_is_made_of_them() -> None:
    static = definition_of(kernelarc={"static_inputs": ["x"]})
    text = interface_text(static, languages_of("cpu"), warmup_calls=3)
    assert "x: static" in text and "_version" in text and "called 3 times" in text
    assert "_version" not in interface_text(definition_of(), languages_of("cpu"))


def test_the_machine_is_told_as_a_kernel_has_to_fit_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert describe_device("cpu") != "not known here"
    monkeypatch.setattr(machine, "_GPUS", tmp_path)
    assert describe_device("cuda:0") == "not known here"
    for number in range(2):
        (tmp_path / f"0000:0{number}").mkdir()
        information = tmp_path / f"0000:0{number}" / "information"
        information.write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 1\n")
    assert describe_device("cuda:0") == "NVIDIA H200"


MANY: Final = 190
CALIBRATED: Final = CalibrationView(
    at="2026-01-01T00:00:00.000000+00:00",
    pairs=8,
    nurseries=1,
    blocks_per_pair=3,
    sd_percent=1.2345678901234567,
    spread_pairs=8,
    mean_percent=-0.1234567890123456,
    shared_bias_percent=None,
    delta_percent=0.3,
    resolution_percent=2.345678901234567,
    biased=False,
    rulers=RulersView(
        empty_window_us=91.234567,
        write_gb_per_second=3123.456789,
        copy_gb_per_second=3987.654321,
        empty_kernel_us=4.2345678,
        matrix_tflops={"bfloat16": 743.12345678, "float16": 712.1234567, "float32": 51.2345678},
    ),
    toolchain={
        "C++": "GCC 13.3.0",
        "nvcc": "13.0.88",
        "Python": "3.12.11",
        "torch": "2.11.0+cu130",
        "numpy": "2.3.5",
        "tvm-ffi": "0.1.12",
        "triton": "3.6.0",
        "cupy": "13.6.0",
        "cuda-python": "13.0.3",
        "driver": "580.159.04",
        "CUDA": "13.0",
        "GPU": "NVIDIA H200",
    },
    note="A bias that all pairs of a nursery share was not measured." * 2,
    warnings=["It is 8 days old: calibrate again."],
)


@pytest.fixture
def long_campaign(tmp_path: Path) -> Iterator[Host]:
    """Yield a campaign of a problem with as many workloads as there may be."""
    problem = make_problem()
    first = problem.workloads[0]
    many = [first.model_copy(update={"uuid": f"w{n}"}) for n in range(MANY)]
    longer = Problem(definition=problem.definition, workloads=many)
    Host.create(tmp_path / "campaign", make_settings(), longer, None)
    opened = Host.open(tmp_path / "campaign")
    yield opened
    opened.close()


def test_many_workloads_come_in_pages_that_fit_and_none_is_left_out(long_campaign: Host) -> None:
    shown: list[WorkloadView] = []
    following: int | None = 0
    while following is not None:
        brief = long_campaign.brief("ada", first_workload=following)
        assert len(brief.model_dump_json()) < ROOM + 50 and brief.workloads_in_all == MANY
        shown += brief.workloads
        following = brief.next_workload
    assert [one.uuid for one in shown] == [f"w{n}" for n in range(MANY)]
    assert sum(one.weight for one in shown) == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(BadRequest, match=f"first_workload: {MANY}; this problem's are 0 to"):
        long_campaign.brief("ada", first_workload=MANY)


@pytest.mark.parametrize("folder", LIBRARY, ids=lambda path: path.name)
def test_the_brief_of_every_problem_we_ship_fits_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    for device, name in (("cpu", "workload.jsonl"), ("cuda:0", "workload.gpu.jsonl")):
        if not (folder / name).is_file():
            continue
        problem = read_problem(folder, name)
        settings = make_settings(problem=problem.definition.name, device=device, lenses=[])
        place = tmp_path / device.partition(":")[0]
        Host.create(place, settings, problem, seed_solution(folder, problem.definition, device))
        host = Host.open(place)
        assert len(host.brief("ada").model_dump_json()) <= MOST
        with monkeypatch.context() as patched:
            patched.setattr("kernelarc_mcp.host.brief.campaign_calibration", lambda *_: CALIBRATED)
            brief = host.brief("ada")
        assert len(brief.model_dump_json()) <= MOST and len(brief.workloads) >= 2
        left_out = "kernelarc://interface" in brief.interface
        assert left_out and "WHAT MAY BE KEPT" in brief.interface
        host.close()


@pytest.mark.parametrize("folder", LIBRARY, ids=lambda path: path.name)
def test_the_interface_of_every_problem_we_ship_is_said_in_short(folder: Path) -> None:
    definition = Definition.model_validate(json.loads((folder / "definition.json").read_text()))
    for device in ("cpu", "cuda:0"):
        text = interface_text(definition, languages_of(device))
        assert len(text) < 5_000
        for name in (*definition.inputs, *definition.outputs):
            assert name in text
