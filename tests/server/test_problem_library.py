"""What the library says of its problems, and which solution is meant for which device."""

import json
from pathlib import Path

import pytest
from problem_folders import write_problem

from benchmarks.library_rows import Judged, RowsError, Workload, append_row, print_table, read_rows
from kernelarc_guard.problem import read_problem
from kernelarc_guard.solution import seed_solution
from kernelarc_mcp.library import LibraryError, known_problems, runs_on, solutions_of

CPP = '#include <dlpack/dlpack.h>\nextern "C" int run(...) { return 0; }\n'
TORCH = "def run(x, s, y):\n    y.copy_(x * s)\n"
TRITON = "import triton\n\n\ndef run(x, s, y):\n    raise NotImplementedError\n"


def _seed(folder: Path, name: str, language: str, path: str) -> None:
    spec = {"languages": [language], "entry_point": f"{path}::run"}
    if language != "pytorch":
        spec["binding"] = "dlpack"
    solution = {"name": name, "definition": "scale", "spec": spec, "sources": [{"path": path}]}
    (folder / "solutions" / name).write_text(json.dumps(solution))


def _folder(tmp_path: Path) -> Path:
    folder = write_problem(tmp_path / "scale")
    (folder / "solutions").mkdir()
    for path, text in {"seed.cpp": CPP, "a.cu": CPP, "b.py": TORCH, "c.py": TRITON}.items():
        (folder / "solutions" / path).write_text(text)
    _seed(folder, "seed.json", "cpp", "seed.cpp")
    return folder


def test_sources_that_a_json_names_are_listed_once_and_for_their_device(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    found = solutions_of(folder, read_problem(folder).definition)
    assert list(found) == ["seed.json", "a.cu", "b.py", "c.py"]
    assert [name for name, one in found.items() if runs_on(one, "cpu")] == ["seed.json", "b.py"]
    assert [name for name, one in found.items() if runs_on(one, "cuda:0")] == [
        "a.cu",
        "b.py",
        "c.py",
    ]


def test_a_gpu_has_a_seed_of_its_own_and_never_one_in_cpp(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    definition = read_problem(folder).definition
    assert seed_solution(folder, definition, "cuda:0") is None
    _seed(folder, "seed.gpu.json", "cuda", "a.cu")
    own = seed_solution(folder, definition, "cuda:0")
    other = seed_solution(folder, definition)
    assert own is not None and own.name == "seed.gpu.json"
    assert other is not None and other.name == "seed.json"


def test_a_torch_seed_serves_both_kinds_of_device(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    _seed(folder, "seed.json", "pytorch", "b.py")
    definition = read_problem(folder).definition
    assert seed_solution(folder, definition) == seed_solution(folder, definition, "cuda:0")


def test_a_folder_without_the_file_says_nothing_of_its_problems(tmp_path: Path) -> None:
    assert known_problems(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("problems: {a: {cpu: judged, gpu: fine, memory: {}}}", "problems.a.gpu"),
        ("problems: [", "is no YAML"),
        ("problems: {a: {cpu: judged, memory: {}}}", "problems.a.gpu"),
        ("- 1", "library.yaml"),
    ],
)
def test_a_wrong_library_file_gives_one_line_that_names_the_field(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "library.yaml").write_text(text)
    with pytest.raises(LibraryError, match="library.yaml") as caught:
        known_problems(tmp_path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def _row(right: bool, reference_us: float | None) -> Judged:
    workload = Workload(
        uuid="w1",
        axes={"n": 3},
        max_absolute_error=0.0,
        reference_us=reference_us,
        solution_us=None if reference_us is None else reference_us / 2,
        bound_us=1.0,
        limited_by="memory",
        bound_source="a data sheet",
    )
    return Judged(
        device="cpu",
        problem="scale",
        operator_class="elementwise",
        problem_digest="d",
        solution="seed.json",
        solution_digest="s",
        right=right,
        verdict="" if right else "REVERT",
        reason="" if right else "wrong_result",
        detail="" if right else "output y is off",
        workloads=[workload, workload.model_copy(update={"uuid": "w2"})],
        observations=[],
        protection={},
        pairs=2,
        at="2026-11-30T00:00:00+00:00",
        seconds=1.0,
    )


def test_the_last_row_of_a_solution_is_printed_with_ratios(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = tmp_path / "rows.jsonl"
    append_row(raw, _row(False, None))
    append_row(raw, _row(True, 8.0))
    print_table(read_rows(raw))
    told = capsys.readouterr().out
    assert "| scale | elementwise | seed.json | yes | 8 | 4 | 2.00x | 1 | memory | 25.0% |" in told
    assert "off" not in told and "* a data sheet" in told


def test_a_wrong_solution_has_a_row_without_times_and_a_line_that_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table([_row(False, None)])
    told = capsys.readouterr().out
    assert "| no |" in told and "REVERT wrong_result: output y is off" in told


def test_a_bad_line_of_the_raw_file_is_named(tmp_path: Path) -> None:
    raw = tmp_path / "rows.jsonl"
    append_row(raw, _row(True, 8.0))
    raw.write_text(raw.read_text() + '{"device": "cpu"}\n')
    with pytest.raises(RowsError, match=r"rows.jsonl:2: problem: "):
        read_rows(raw)
