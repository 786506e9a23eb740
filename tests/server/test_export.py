"""`export` and `reproduce`: a campaign's candidates taken out, and judged again."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Run
from host_places import judge_all, make_campaign, opened, planned, scripted_guard

from kernelarc_guard.formats.traces import read_traces
from kernelarc_guard.problem import read_problem
from kernelarc_guard.reasons import Stage
from kernelarc_guard.solution import read_solution
from kernelarc_mcp.evaluation import Case, refused
from kernelarc_mcp.exporting.candidates import candidates
from kernelarc_mcp.exporting.holding import reproduction
from kernelarc_mcp.host.campaign import open_campaign

PLANS = [
    ("ada", "gain:20"),
    ("bob", "wrong"),
    ("bob", "broken"),
    ("bob", "gain:-30"),
    ("ada", "gain:12"),
    ("bob", "gain:15"),
]
"""Judged one after the other: KEEP, REVERT, REJECT, REVERT, a KEEP that is withdrawn again because
beside the last one it is not what it was, and that last one: a KEEP over the first."""


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a campaign in which two agents made three records and three failures."""
    place = tmp_path_factory.mktemp("searched")
    folder = place / "campaign"
    make_campaign(folder)
    guard = scripted_guard(place)
    for number, (agent, plan) in enumerate(PLANS):
        with opened(folder) as host:
            host.submit(agent, source=planned(number, plan), summary=f"tried\n{plan} | x")
        judge_all(folder, guard)
    return folder


def git(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


def test_a_repository_has_a_branch_per_agent_a_commit_per_candidate_and_a_tag_per_keep(
    run: Run, searched: Path, tmp_path: Path
) -> None:
    out = tmp_path / "repo"
    status, said, err = run("export", str(searched), "--to", "git", "--out", str(out))
    assert status == 0, err
    assert "6 judged candidates, 3 kept, of 2 agents" in said
    assert git(out, "branch", "--format=%(refname:short)").split() == [
        "agent/ada",
        "agent/bob",
        "main",
    ]
    assert git(out, "tag").split() == [
        "attempt/0002-s002",
        "attempt/0003-s003",
        "attempt/0004-s004",
        "keep/0001-s001",
        "keep/0005-s005",
        "keep/0006-s006",
        "seed",
    ]
    assert git(out, "fsck", "--strict") == "" and git(out, "status", "--porcelain") == ""
    subjects = git(out, "log", "--format=%s", "--first-parent", "main").splitlines()
    assert [line.partition(" ")[0] for line in subjects] == ["KEEP", "Seed:"]
    reached = set(git(out, "tag", "--merged", "main").split())
    assert reached == {"seed", "keep/0001-s001", "keep/0006-s006"}
    assert git(out, "rev-parse", "attempt/0002-s002^") == git(out, "rev-parse", "seed")
    shown = git(out, "show", "--no-patch", "--format=%an %ae%n%B", "keep/0005-s005")
    assert shown.startswith("ada ada@kernelarc.invalid\nKEEP 1.1")
    for line in (
        "Verdict: KEEP confirmed (timing)",
        "Agent: ada",
        "Over the seed: 1.",
        "Withdrawn: record_drifted: ",
    ):
        assert line in shown


def test_the_same_campaign_gives_the_same_commits(
    run: Run, searched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = []
    for name in ("one", "two"):
        monkeypatch.setenv("GIT_AUTHOR_NAME", name)
        run("export", str(searched), "--to", "git", "--out", str(tmp_path / name))
        heads.append(git(tmp_path / name, "show-ref"))
    assert heads[0] == heads[1]


def test_a_folder_holds_what_evaluate_reads_and_its_test_names_what_is_expected(
    run: Run, searched: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run("export", str(searched), "--out", str(out))[0] == 0
    problem = read_problem(out / "problem")
    kernel = read_solution(out / "solution", problem.definition)
    assert (kernel.name, kernel.author) == ("s006", "bob")
    assert "PLAN = 'gain:15'" in kernel.sources[0].content
    assert read_solution(out / "record", problem.definition).name == "s001"
    assert read_solution(out / "seed", problem.definition).name == "seed"
    test = (out / "test_kernel.py").read_text()
    compile(test, "test_kernel.py", "exec")
    assert 'EXPECTED = {"record": "KEEP", "seed": "KEEP"}' in test
    readme = (out / "README.md").read_text()
    assert (
        readme.startswith("# add: KEEP 1.1") and "tried gain:15 | x" not in readme.splitlines()[0]
    )
    (header, _, *rows) = [line for line in readme.splitlines() if line.count("|") == 5]
    # The times are the confirmation's, the error is the screen's.
    assert header.endswith("| largest error |") and rows
    assert all(row.endswith("| 1e-06 |") for row in rows)
    status, _, err = run("export", str(searched), "--out", str(out))
    assert (status, err.count("\n")) == (2, 1) and "expected a new or an empty folder" in err


def test_a_solution_goes_out_in_both_forms_and_over_nothing(
    run: Run, searched: Path, tmp_path: Path
) -> None:
    definition = read_problem(searched / "problem").definition
    for form in ("sol", "flashinfer"):
        file = tmp_path / f"{form}.json"
        more = ("--to", "solution", "--form", form, "--submission", "s001", "--out", str(file))
        assert run("export", str(searched), *more)[0] == 0
        assert read_solution(file, definition).name == "s001"
        status, _, err = run("export", str(searched), *more)
        assert (status, err.count("\n")) == (2, 1) and "File exists" in err


def test_traces_hold_every_judged_candidate(run: Run, searched: Path, tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    status, said, err = run("export", str(searched), "--to", "trace", "--out", str(file))
    assert status == 0, err
    traces = read_traces(file, [])
    assert said.startswith(f"{len(traces)} traces of 6 candidates")
    assert {trace["solution"] for trace in map(json.loads, file.read_text().splitlines())} >= {
        "s001",
        "s005",
        "s006",
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--submission", "s099"), "there is no judged submission 's099'"),
        (("--to", "git", "--submission", "s001"), "--to git takes all judged candidates"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    run: Run, searched: Path, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    status, out, err = run("export", str(searched), "--out", str(tmp_path / "x"), *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1) and says in err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("submission", "verdict"), [("record", "KEEP"), ("s002", "REVERT"), ("s004", "REVERT")]
)
def test_a_verdict_that_comes_again_holds(
    run: Run, searched: Path, tmp_path: Path, submission: str, verdict: str
) -> None:
    guard = scripted_guard(tmp_path)
    status, out, err = run(
        "reproduce", str(searched), submission, "--guard-python", guard, "--fresh", "--json"
    )
    assert status == 0, err
    found = json.loads(out)
    assert (found["verdict"], found["holds"]) == (verdict, True)


@pytest.mark.parametrize(
    ("recorded", "again", "holds", "says"),
    [
        (("KEEP", "confirmed", "timing"), ("KEEP", "confirmed", "timing"), True, "faster than"),
        (
            ("KEEP", "confirmed", "timing"),
            ("ACCEPT", "gain_not_confirmed", "timing"),
            False,
            "not proven again; the least this device could prove is 4.00 %",
        ),
        (("KEEP", "confirmed", "timing"), ("REVERT", "slower", "timing"), False, "REVERT slower"),
        (("REVERT", "slower", "timing"), ("KEEP", "confirmed", "timing"), False, "KEEP confirmed"),
        (
            ("REVERT", "slower", "timing"),
            ("ACCEPT", "close_to_record", "timing"),
            True,
            "It holds",
        ),
        (
            ("REVERT", "wrong_result", "correctness"),
            ("REVERT", "crashed", "correctness"),
            False,
            "REVERT crashed",
        ),
    ],
)
def test_only_a_keep_repeats_a_keep(
    searched: Path,
    recorded: tuple[str, str, Stage],
    again: tuple[str, str, str],
    holds: bool,
    says: str,
) -> None:
    campaign = open_campaign(searched)
    found = candidates(campaign)
    campaign.close()
    names = ("verdict", "reason", "stage")
    verdict, reason, stage = recorded
    known = replace(found.record, verdict=verdict, reason=reason, stage=stage)
    case = Case(
        problem=campaign.problem, record=known.solution, device="cpu", cache_dir="never used"
    )
    base = refused(case, "again", "build_failed", "said")
    figures = {"lower": 1.1, "resolution": 4.0}
    new = base.model_copy(update=dict(zip(names, again, strict=True)) | figures)
    told = reproduction(known, new)
    assert (told.holds, says in told.says) == (holds, True), told.says


def test_the_seed_cannot_be_reproduced(run: Run, searched: Path) -> None:
    status, out, err = run("reproduce", str(searched), "seed")
    assert (status, out, err.count("\n")) == (2, "", 1) and "compared with nothing" in err
