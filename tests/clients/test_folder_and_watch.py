"""Submitting a folder of candidates, and watching the board, as a user does."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_processes import end, start
from command_line import Run
from host_places import make_campaign, scripted_guard
from server_process import http_server
from submit_folder import BadCandidate, detail_of, read_candidate, read_folder
from tuning.connection import KNOWN, said
from watch import news

from kernelarc_mcp.cli.submission import print_submission
from kernelarc_mcp.views import SubmissionView
from kernelarc_memory.conclusion import LESSON_CAP, SUMMARY_CAP

FAST = """\
# ---
# summary: twice the rows per step
# algorithm: pairs
# if_win: Pairs pay here.
# if_trap: Pairs do not pay.
# ---
PLAN = 'gain:20'


def run(x, y):
    return x + y
"""
BROKEN = FAST.replace("gain:20", "broken").replace("twice", "four times")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str, dict[str, str]]]:
    folder = tmp_path / "campaign"
    tokens = dict(make_campaign(folder))
    with http_server(folder, scripted_guard(tmp_path)) as (_, url):
        yield folder, url, tokens


def test_a_folder_is_submitted_in_order_and_its_lessons_are_written_once(
    served: tuple[Path, str, dict[str, str]],
    tmp_path: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, url, tokens = served
    candidates = tmp_path / "candidates"
    candidates.mkdir()
    (candidates / "1_fast.py").write_text(FAST)
    (candidates / "2_broken.py").write_text(BROKEN)
    (candidates / "notes.txt").write_text("not a candidate\n")
    arguments = ("submit_folder.py", str(candidates), "--url", url)
    status, out, errors = end(start(*arguments, KERNELARC_TOKEN=tokens["ada"]))
    assert status == 0, errors
    lines = out.splitlines()
    assert lines[1].startswith("1_fast.py: s001 KEEP confirmed 1.2")
    assert lines[2] == "1_fast.py: wrote a win"
    assert lines[3] == "2_broken.py: s002 REJECT build_failed"
    assert lines[4].startswith("  kernel.py:1: expected something else.")
    assert lines[5] == "2_broken.py: wrote a trap"
    assert "1_fast.py: Queued, place 1.\n" in errors and "pair" not in errors
    status, shown, errors = run("status", str(folder), "--submission", "s002")
    assert status == 0, errors
    assert shown.startswith("s002 by ada: REJECT build_failed\nkernel.py:1: expected something")
    view = json.loads(run("status", str(folder), "--submission", "s002", "--json")[1])
    assert (view["ticket"], view["reason"]) == ("s002", "build_failed")
    built = {"file": "k.cpp", "line": 7, "severity": "error", "message": "no such name"}
    view["build"] = [built | {"severity": "warning"}, built]
    assert detail_of(view).endswith(" k.cpp:7: no such name")
    print_submission(SubmissionView.model_validate(view))
    assert "k.cpp:7: error: no such name" in capsys.readouterr().out
    status, shown, errors = run("status", str(folder), "--submission", "s009")
    assert (status, shown) == (2, "") and "no submission 's009'" in errors
    status, again, errors = end(start(*arguments, KERNELARC_TOKEN=tokens["ada"]))
    assert status == 0, errors
    assert again.count("(known)") == 4
    with sqlite3.connect(folder / "campaign.db") as ledger:
        (count,) = ledger.execute("SELECT count(*) FROM event WHERE kind = 'submitted'").fetchone()
    ledger.close()
    assert count == 2


def test_a_watcher_is_told_of_verdicts_and_records_pushed_or_polled(
    served: tuple[Path, str, dict[str, str]], tmp_path: Path
) -> None:
    _, url, tokens = served
    kernel = tmp_path / "kernel.py"
    kernel.write_text(FAST)
    watcher = start("watch.py", url, KERNELARC_TOKEN=tokens["ada"])
    assert watcher.stdout is not None
    assert "attempts used, record seed, 1.000x the seed" in watcher.stdout.readline()
    status, _, errors = end(start("minimal.py", url, str(kernel), KERNELARC_TOKEN=tokens["bob"]))
    assert status == 0, errors
    seen = [watcher.stdout.readline(), watcher.stdout.readline()]
    watcher.terminate()
    watcher.communicate(timeout=60)
    assert "bob: KEEP (1 used" in seen[0]
    assert "record: s001 by bob" in seen[1]
    arguments = ("watch.py", url, "--poll", "0.2", "--seconds", "1")
    status, out, errors = end(start(*arguments, KERNELARC_TOKEN=tokens["ada"]))
    assert status == 0, errors
    assert "record s001 by bob" in out.splitlines()[0]
    status, out, errors = end(start("watch.py", url, KERNELARC_TOKEN="ka_wrong"))
    assert (status, out, errors) == (1, "", f"watch: {url}: {KNOWN[401]}\n")


def test_who_cannot_submit_a_folder_is_told_why_in_the_last_line(
    served: tuple[Path, str, dict[str, str]], tmp_path: Path
) -> None:
    folder, url, _ = served
    (tmp_path / "a.py").write_text(FAST)
    arguments = ("submit_folder.py", str(tmp_path))
    status, out, errors = end(start(*arguments, "--url", url, KERNELARC_TOKEN="ka_wrong"))
    assert (status, out, errors) == (1, "", f"submit_folder: {url}: {KNOWN[401]}\n")
    stdio = ("--stdio-campaign", str(folder), "--name", "nobody")
    status, out, errors = end(start(*arguments, *stdio))
    *_, own, last = errors.splitlines()
    assert (status, out) == (1, "") and "nobody" in own
    ended = f"the server process for {folder} ended; its own line above says why"
    assert last == f"submit_folder: {ended}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def run():\n    pass\n", "first line"),
        (FAST.replace("summary", "sumary"), "unknown 'sumary'"),
        (FAST.replace("# summary: twice the rows per step\n", ""), "`summary` is missing"),
        (FAST.replace("pairs", "[a, b]"), "algorithm: expected a text"),
        (FAST.replace("# if_win: ", "# if_win: 'open "), "not YAML"),
        (FAST.replace("# if_win", "if_win"), "must begin with '#'"),
        (FAST.replace("twice", "x" * SUMMARY_CAP), f"at most {SUMMARY_CAP} characters"),
        (FAST.replace("Pairs pay", "x" * LESSON_CAP), f"at most {LESSON_CAP}"),
    ],
)
def test_bad_front_matter_is_refused_before_anything_is_submitted(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "a.py").write_text(FAST)
    (tmp_path / "b.py").write_text(text)
    (tmp_path / "c.py").write_bytes(b"# \xff")
    with pytest.raises(BadCandidate, match=r"b\.py") as refused:
        read_folder(tmp_path)
    assert said in str(refused.value)
    assert "c.py: it is no UTF-8 text" in str(refused.value), "all bad files are told at once"


def test_front_matter_of_cpp_is_read_and_an_empty_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.cpp"
    path.write_text('// ---\n// summary: s\n// cflags: ["-O3"]\n// ---\nint run();\n')
    candidate = read_candidate(path)
    assert candidate.arguments["destination_passing"] is True
    assert candidate.arguments["cflags"] == ["-O3"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadCandidate, match="no candidate here"):
        read_folder(tmp_path / "empty")


def test_only_what_changed_is_told() -> None:
    row = {"agent": "ada", "verdicts": {"KEEP": 1}, "attempts_used": 1, "attempts_left": 3}
    record = {"submission": "seed", "agent": None, "speedup": 1.0}
    board = {
        "problem": "p",
        "device": "cpu",
        "attempts": 8,
        "attempts_used": 1,
        "agents": [row],
        "record": record,
        "quarantined": "",
        "suspect": "",
    }
    assert news(board, board) == []
    later = board | {
        "agents": [row | {"verdicts": {"KEEP": 1, "REVERT": 2}, "attempts_used": 3}],
        "quarantined": "why",
    }
    assert news(board, later) == ["ada: REVERT x2 (3 used, 3 left)", "quarantined: why"]


def test_a_failure_is_told_by_what_it_is_where_it_says_nothing() -> None:
    nested = ExceptionGroup("tasks", [ExceptionGroup("inner", [OSError()])])
    assert said(nested) == "OSError"
    assert said(ExceptionGroup("tasks", [ValueError("wrong")])) == "wrong"
