"""Links among a problem's files: one that stays in the folder is a file, one that leaves is refused."""

import json
from pathlib import Path

import pytest
from problem_folders import DEFINITION, WORKLOAD, write_problem

from kernelarc_guard.definition import Definition
from kernelarc_guard.formats.blobs import ROOTS, find_file
from kernelarc_guard.formats.flashinfer import create_set
from kernelarc_guard.problem import ProblemError, read_problem
from kernelarc_guard.solution import SolutionError, seed_solution

DEF = Definition.model_validate(DEFINITION)
SEED = {
    "name": "seed",
    "definition": "scale",
    "spec": {"languages": ["python"], "entry_point": "k.py::run"},
    "sources": [{"path": "k.py", "content": "def run(x, s): return x * s"}],
}


def moved_out(path: Path, outside: Path) -> Path:
    """Put a link in the place of what is at `path`, which is then outside of its folder."""
    outside.mkdir(exist_ok=True)
    path.rename(outside / path.name)
    path.symlink_to(outside / path.name)
    return path


@pytest.mark.parametrize("name", ["definition.json", "workload.jsonl"])
def test_a_file_of_a_problem_that_links_out_of_its_folder_is_refused(
    tmp_path: Path, name: str
) -> None:
    link = moved_out(write_problem(tmp_path / "p") / name, tmp_path / "outside")
    with pytest.raises(ProblemError) as refused:
        read_problem(tmp_path / "p")
    assert str(refused.value).startswith(f"{link}: is a link to {tmp_path / 'outside' / name}")


def test_links_that_stay_inside_and_a_link_to_the_whole_folder_are_read(tmp_path: Path) -> None:
    folder = write_problem(tmp_path / "p")
    (folder / "workload.jsonl").rename(folder / "all.jsonl")
    (folder / "workload.jsonl").symlink_to("all.jsonl")
    (tmp_path / "elsewhere").symlink_to(folder)
    assert read_problem(tmp_path / "elsewhere").digest == read_problem(folder).digest


def test_a_tensor_file_behind_a_linked_folder_is_refused_by_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_problem(tmp_path / "p")
    (folder / "blob").mkdir()
    (folder / "blob" / "x.safetensors").write_bytes(b"x")
    assert find_file(folder, "blob/x.safetensors").is_file()
    link = moved_out(folder / "blob", tmp_path / "outside")
    monkeypatch.setenv(ROOTS[0], str(folder))
    for below in (folder, tmp_path / "no problem"):
        with pytest.raises(ValueError, match="is not followed") as refused:
            find_file(below, "blob/x.safetensors")
        assert str(refused.value).startswith(f"{link}: ")


def test_a_seed_that_links_out_of_its_problem_is_refused(tmp_path: Path) -> None:
    folder = write_problem(tmp_path / "p")
    (folder / "solutions").mkdir()
    (folder / "solutions" / "seed.json").write_text(json.dumps(SEED))
    assert seed_solution(folder, DEF) is not None
    link = moved_out(folder / "solutions" / "seed.json", tmp_path / "outside")
    with pytest.raises(SolutionError) as refused:
        seed_solution(folder, DEF)
    assert str(refused.value).startswith(f"{link}: is a link to ")


def test_solutions_and_traces_of_a_set_that_link_out_of_it_are_refused(tmp_path: Path) -> None:
    made = create_set(tmp_path / "set")
    for side in ("definitions", "workloads", "solutions/me", "traces/me"):
        (made.root / side / "elementwise" / "scale").mkdir(parents=True)
    plain = {key: value for key, value in DEFINITION["axes"].items() if key != "half"}
    definition = json.dumps(DEFINITION | {"axes": plain})
    (made.root / "definitions" / "elementwise" / "scale.json").write_text(definition)
    line = json.dumps({"definition": "scale", "workload": WORKLOAD})
    (made.root / "workloads" / "elementwise" / "scale.jsonl").write_text(line + "\n")
    solution = made.root / "solutions" / "me" / "elementwise" / "scale" / "seed.json"
    solution.write_text(json.dumps(SEED))
    traces = made.root / "traces" / "me" / "elementwise" / "scale.jsonl"
    traces.write_text(line + "\n")
    warnings: list[str] = []
    assert [one.name for one in made.solutions("scale", warnings)] == ["seed"]
    for link in (moved_out(solution, tmp_path / "a"), moved_out(traces, tmp_path / "b")):
        with pytest.raises(ProblemError, match="is not followed") as refused:
            made.solutions("scale", warnings) if link == solution else made.traces("scale", [])
        assert str(refused.value).startswith(f"{link}: ")
