"""`new --from` on the command line: its options, and one problem written by the real process."""

import json
from pathlib import Path

import pytest
from command_line import Run, command_line

from kernelarc_guard.problem import read_problem
from kernelarc_mcp.cli.author import gained_nothing, request_from
from kernelarc_mcp.cli.console import UserError

NONE: dict[str, list[str] | None] = dict.fromkeys(
    ("shapes", "dtypes", "axes", "scalars", "constants", "settings")
)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command line and returns status, output and errors."""
    return command_line(monkeypatch, capfd)


def test_a_function_of_a_file_here_becomes_a_problem(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("print('imported')\ndef double(x):\n    return x + x\n")
    (tmp_path / "random.py").write_text("raise RuntimeError('not that one')\n")
    monkeypatch.chdir(tmp_path)
    shape = ("--shape", "x=rows, 8", "--axes", "rows=2", "--axes", "rows=4", "--dtype", "float64")
    status, out, err = run("new", "made", "--from", "mine:double", *shape, "--no-judge", "--json")
    assert status == 0, err
    assert json.loads(out) == {"problem": "double", "folder": str(tmp_path / "made"), "seen": []}
    problem = read_problem(tmp_path / "made")
    assert [one.axes for one in problem.workloads] == [{"rows": 2}, {"rows": 4}]
    assert problem.definition.inputs["x"].dtype == "float64"
    status, out, err = run("new", "made", "--from", "mine:double", *shape, "--no-judge")
    assert (status, out) == (2, "") and f"{tmp_path / 'made'}: exists; expected a new folder" in err
    assert "if an earlier try was broken off and left it, remove it first" in err


def test_a_reference_that_is_no_faster_than_itself_is_not_told_as_a_failure() -> None:
    said = gained_nothing("REVERT", "not_proven_close")
    assert said.startswith("Judged: a kernel that is no faster gains nothing,")
    assert said.endswith(" (REVERT not_proven_close).")


def test_a_campaign_needs_a_problem_and_a_problem_no_campaign(run: Run, tmp_path: Path) -> None:
    made = str(tmp_path / "made")
    for arguments, says in (
        ((made,), "give --problem for a campaign, or --from for a problem"),
        ((made, "--problem", "topk", "--from", "a:b"), "give --problem for a campaign, or --from"),
        ((made, "--problem", "topk", "--shape", "x=3"), "--shape: only with --from"),
        ((made, "--problem", "topk", "--eval"), "--eval: only with --from"),
        ((made, "--from", "gone/a.py:b"), "--from: gone/a.py: no such file"),
        ((made, "--from", "a:b", "--shape", "3"), "--shape 3: expected NAME=..."),
        (
            (made, "--from", "a:b", "--dtype", "x=int8", "--dtype", "x=bool"),
            "--dtype x=bool: x is given twice",
        ),
    ):
        status, out, err = run("new", *arguments)
        assert (status, out) == (2, "") and says in err and err.count("\n") == 1, err
    assert not (tmp_path / "made").exists()


def test_options_become_a_request(tmp_path: Path) -> None:
    request = request_from(
        "a:b",
        tmp_path,
        {
            "shapes": ["x=n,4", "bias="],
            "dtypes": ["x=bfloat16", "float16"],
            "axes": ["n=3", "n=4, m=5"],
            "scalars": ["eps=1e-6", "flag=True"],
            "constants": ["dim=-1", "mode='tanh'", "sizes=(1, 2)"],
            "settings": None,
        },
        name="mine",
    )
    assert request.shapes == {"x": ["n", "4"], "bias": []}
    assert request.dtypes == {"x": "bfloat16", "*": "float16"}
    assert request.axes == [{"n": 3}, {"n": 4, "m": 5}]
    assert request.scalars == {"eps": 1e-6, "flag": True}
    assert request.constants == {"dim": -1, "mode": "tanh", "sizes": [1, 2]}


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("shapes", "x y=3", "--shape x y=3: expected NAME=..."),
        ("axes", "n=-3", "--axes n=-3: expected NAME=LENGTH"),
        ("axes", "n", "--axes n: expected NAME=..."),
        ("scalars", "eps=small", "--scalar eps=small: expected a Python literal"),
        ("scalars", "eps=[1]", "--scalar eps: expected a number"),
        ("constants", "f=lambda: 1", "--constant f=lambda: 1: expected a Python literal"),
        ("settings", "n=1+", "--set n=1+: expected a Python literal"),
    ],
)
def test_an_option_that_says_nothing_is_named(
    tmp_path: Path, option: str, value: str, says: str
) -> None:
    with pytest.raises(UserError) as refused:
        request_from("a:b", tmp_path, {**NONE, option: [value]})
    assert says in str(refused.value)
    with pytest.raises(UserError, match="is given twice"):
        request_from("a:b", tmp_path, {**NONE, "shapes": ["x=3", "x=4"]})
