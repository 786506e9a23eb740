"""`problems PATH`: what a folder or a set holds, and whether each reference runs."""

import json
from pathlib import Path

import pytest
from command_line import Run
from problem_folders import DEFINITION, WORKLOAD, changed, write_problem

from kernelarc_guard.check_problem import check_problem
from kernelarc_guard.formats.documents import Documents
from kernelarc_guard.formats.flashinfer import create_set
from kernelarc_guard.formats.needs import needs_gpu
from kernelarc_guard.formats.trying import run_once
from kernelarc_guard.problem import ProblemError, read_problem

LARGE = changed(WORKLOAD, "axes.n", 2**40)
LONE = changed(WORKLOAD, "axes", {})


def test_the_library_is_listed_with_class_needs_and_state(run: Run) -> None:
    status, out, _ = run("problems", "--json")
    listed = {row["name"]: row for row in json.loads(out)}
    assert status == 0
    assert all(row["operator_class"] and row["needs"] and row["state"] for row in listed.values())
    assert "125 GiB (workload.gpu141.jsonl)" in listed["moe_backward"]["needs"]
    assert "sm_100" in listed["nvfp4_gqa"]["needs"]


def test_a_problems_page_has_all_that_a_candidate_must_be(run: Run) -> None:
    status, page, _ = run("problems", "rmsnorm")
    assert status == 0
    for said in (
        "x [rows, hidden] float32",
        "y [rows, hidden] float32",
        "rows=61 hidden=1777: max_atol 1e-05",
        "RIGHT (strict): Every element",
        "return x * torch.rsqrt",
        "SEED (cpp), seed.cpp",
        'extern "C" int run(const DLTensor* x, const DLTensor* weight, DLTensor* y)',
        "def run(x, weight): return y",
    ):
        assert said in page, said
    assert ".cu" in run("problems", "rmsnorm", "--device", "cuda:0")[1]


def test_every_problem_below_a_folder_is_listed_with_what_is_wrong(
    run: Run, tmp_path: Path
) -> None:
    write_problem(tmp_path / "a" / "good", changed(DEFINITION, "odd", 1))
    write_problem(tmp_path / "b", changed(DEFINITION, "name", ""))
    status, out, _ = run("problems", str(tmp_path), "--json")
    good, bad = json.loads(out)
    assert (status, good["name"], good["workloads"]) == (1, "scale", 1)
    assert good["warnings"] == ["definition.json: odd: unknown key, ignored"]
    assert bad["error"].startswith("definition.json: name: ")
    for more in ((), ("--run",)):
        rows = run("problems", str(tmp_path), *more)[1].splitlines()
        named = [[cell.strip() for cell in row.split("│")[1:3]] for row in rows if "│" in row]
        assert named == [["scale", "a/good"], ["b", "b"]]
    status, out, _ = run("problems", str(tmp_path / "a"))
    assert status == 0 and "folder" not in out and "AXES" in out
    fixed = changed(changed(DEFINITION, "axes", {}), "inputs.x.shape", ["3", "4"])
    write_problem(tmp_path / "c", changed(fixed, "outputs.y.shape", ["3", "4"]), [LONE])
    status, out, _ = run("problems", str(tmp_path / "c"))
    assert status == 0 and "INPUTS" in out and "AXES" not in out
    for path, says in (
        (tmp_path / "gone", "is no folder and no library problem"),
        (tmp_path / "a" / "x", "no problem"),
    ):
        if path.name == "x":
            path.mkdir()
        status, _, err = run("problems", str(path))
        assert status == 2 and says in err


def test_a_set_is_listed_and_its_references_run_at_reduced_size(run: Run, tmp_path: Path) -> None:
    made = create_set(tmp_path / "set")
    made.add_problem(Documents(changed(DEFINITION, "axes.half", ...), [LARGE]))
    status, out, _ = run("problems", str(made.root), "--run", "--json")
    (one,) = json.loads(out)
    assert (status, one["error"]) == (0, "")
    assert one["ran"] == "y [4, 4] float32 at n=4"


def test_lengths_are_cut_down_only_as_far_as_the_reference_bears(tmp_path: Path) -> None:
    picky = "def run(x, s):\n    assert x.shape[0] >= 50, 'too short'\n    return x * s\n"
    folder = write_problem(tmp_path, changed(DEFINITION, "reference", picky), [LARGE])
    assert run_once(read_problem(folder)) == "y [64, 4] float32 at n=64"
    never = "def run(x, s):\n    raise RuntimeError('never')\n"
    small = changed(WORKLOAD, "axes.n", 100)
    write_problem(tmp_path, changed(DEFINITION, "reference", never), [small])
    with pytest.raises(ValueError, match="workload w1: reference: raised RuntimeError: never$"):
        run_once(read_problem(tmp_path))


def test_a_reference_that_needs_a_gpu_says_so(tmp_path: Path) -> None:
    moved = "def run(x, s):\n    return (x.cuda() * s).cpu()\n"
    write_problem(tmp_path, changed(DEFINITION, "reference", moved))
    with pytest.raises(ValueError, match=r"it moves tensors to a GPU \(.cuda\(\)\): it needs CUDA"):
        run_once(read_problem(tmp_path))
    with pytest.raises(ProblemError, match=r"raised .*it needs CUDA, --device cuda:0"):
        check_problem(read_problem(tmp_path))
    for source, says in (
        ("import triton.language as tl", "triton"),
        ("from cupy import asarray", "cupy"),
        ("def run(a): return torch._scaled_mm(a, a)", "matrix units"),
        ("def run(a): return a.to('cuda:0')", "device cuda"),
        ("def run(a): return a", ""),
        ("def run(", ""),
    ):
        found = needs_gpu(source)
        assert says in found and bool(says) == bool(found)


def test_inputs_that_are_not_there_are_named(tmp_path: Path) -> None:
    source = {"type": "safetensors", "path": "./blob/a.safetensors", "tensor_key": "x"}
    write_problem(tmp_path, workloads=[changed(WORKLOAD, "inputs.x", source)])
    with pytest.raises(ValueError, match="workload w1: input x: ./blob/a.safetensors: no such"):
        run_once(read_problem(tmp_path))
