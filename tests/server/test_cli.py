"""The command line: campaigns from creation to report, and mistakes answered in one line."""

import json
import sqlite3
from pathlib import Path

import pytest
from command_line import Run
from server_campaigns import DEFINITION, KERNEL, WORKLOADS, Place
from typer.main import get_command

from kernelarc_mcp.cli.main import app
from kernelarc_mcp.host.host import Host


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """Return a problem folder."""
    folder = tmp_path / "doubling"
    folder.mkdir()
    (folder / "definition.json").write_text(json.dumps(DEFINITION))
    lines = [json.dumps(workload) + "\n" for workload in WORKLOADS]
    (folder / "workload.jsonl").write_text("".join(lines))
    return folder


def test_every_command_and_option_has_help() -> None:
    group = get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        assert command.help or name in ("agent", "token"), name
        for parameter in command.params:
            if getattr(parameter, "help", None) is None:
                assert parameter.name == "help", (name, parameter.name)


def test_new_prints_each_token_once_and_the_campaign_works(
    run: Run, problem: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "made"
    options = ("--agents", "3", "--attempts", "10", "--r-draft", "2")
    status, out, _ = run("new", str(folder), "--problem", str(problem), *options, "--json")
    assert status == 0
    tokens = json.loads(out)["tokens"]
    assert [row["agent"] for row in tokens] == ["agent-1", "agent-2", "agent-3"]
    host = Host.open(folder)
    assert [host.agent_for_token(row["token"]) for row in tokens] == host.agents()
    assert host.brief("agent-1").state.attempts_left == 4
    assert host.brief("agent-2").state.attempts_left == 3
    host.close()
    for row in tokens:
        assert row["token"] not in (folder / "campaign.db").read_bytes().decode("latin-1")


def test_a_library_problem_is_found_by_name(run: Run, tmp_path: Path) -> None:
    listed = json.loads(run("problems", "--json")[1])
    names = [row["name"] for row in listed]
    assert {"rmsnorm", "softmax"} <= set(names)
    many = ("--agents", "3", "--attempts", "10")
    status, out, err = run("new", str(tmp_path / "made"), "--problem", "rmsnorm", *many)
    assert (status, err) == (0, "")
    assert [line.split()[-2:] for line in out.splitlines() if " ka_" in line] == [
        ["4", "attempts"],
        ["3", "attempts"],
        ["3", "attempts"],
    ]


def test_agents_are_added_and_revoked(run: Run, place: Place) -> None:
    status, out, _ = run("agent", "add", str(place.folder), "eve", "--attempts", "5", "--json")
    assert status == 0
    token = json.loads(out)["token"]
    host = Host.open(place.folder)
    assert host.agent_for_token(token) == "eve"
    assert run("agent", "revoke", str(place.folder), "eve")[0] == 0
    assert host.agent_for_token(token) is None
    assert host.agent_for_token(place.tokens["ada"]) == "ada"
    host.close()


def test_tokens_of_who_takes_no_part_are_made_listed_and_revoked(run: Run, place: Place) -> None:
    folder = str(place.folder)
    made = json.loads(run("token", "add", folder, "--role", "viewer", "--json")[1])
    assert (made["name"], made["role"]) == ("viewer", "viewer")
    assert (
        "root (admin): ka_" in run("token", "add", folder, "--role", "admin", "--name", "root")[1]
    )
    host = Host.open(place.folder)
    held = host.holder_of_token(made["token"])
    assert held is not None and (held.name, held.role) == ("viewer", "viewer")
    assert host.agent_for_token(made["token"]) is None

    status, listed, _ = run("token", "list", folder)
    assert status == 0 and len(listed.splitlines()) == 4
    assert made["token"] not in listed and held.hash not in listed
    rows = json.loads(run("token", "list", folder, "--json")[1])
    (viewer,) = [row for row in rows if row["role"] == "viewer"]
    assert run("token", "revoke", folder, viewer["id"])[0] == 0
    assert host.holder_of_token(made["token"]) is None
    status, _, err = run("token", "revoke", folder, viewer["id"])
    assert status == 2 and "no valid token" in err
    assert run("token", "add", folder, "--role", "viewer", "--name", "a/b")[0] == 2

    # All tokens of an agent, and nobody else's of that name.
    assert run("token", "add", folder, "--role", "viewer", "--name", "ada")[0] == 0
    assert "ada: 1 token revoked" in run("agent", "revoke", folder, "ada")[1]
    agents = json.loads(run("agent", "list", folder, "--json")[1])
    assert [(row["agent"], row["tokens"]) for row in agents] == [("ada", 0), ("bob", 1)]
    assert "bob: 0 attempts used, 4 left, 1 valid tokens" in run("agent", "list", folder)[1]
    host.close()


def test_status_and_report_say_the_same_as_the_ledger(run: Run, place: Place) -> None:
    host = Host.open(place.folder)
    host.brief("ada")
    host.submit("ada", source=KERNEL, summary="queued [one]")
    host.submit("bob", source=KERNEL, language="fortran", summary="rejected", tokens=7)
    host.close()
    status = json.loads(run("status", str(place.folder), "--json")[1])
    assert (status["attempts_used"], status["queued"]) == (2, 1)
    assert status["verdicts"] == {"REJECT": 1}
    report = json.loads(run("report", str(place.folder), "--json")[1])
    assert [row["agent"] for row in report["submissions"]] == ["ada", "bob"]
    assert report["tokens"] == 7
    for command in ("status", "report"):
        code, out, _ = run(command, str(place.folder))
        assert code == 0
        assert "REJECT" in out
    assert "queued [one]" in run("report", str(place.folder))[1]


def test_verify_passes_a_campaign_and_names_a_row_edited_by_hand(run: Run, place: Place) -> None:
    host = Host.open(place.folder)
    host.submit("bob", source=KERNEL, language="fortran", summary="rejected")
    host.close()
    assert run("verify", str(place.folder))[0] == 0
    with sqlite3.connect(place.folder / "campaign.db") as database:
        database.execute("UPDATE event SET body = replace(body, 'REJECT', 'ACCEPT') WHERE seq = 4")
    database.close()
    status, out, _ = run("verify", str(place.folder))
    assert status == 1
    assert "row 4" in out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("status", "nowhere"), "nowhere: no campaign here"),
        (("verify", "nowhere"), "nowhere: no campaign here"),
        (("report", "nowhere"), "nowhere: no campaign here"),
        (("serve", "nowhere", "--http", "0"), "nowhere: no campaign here"),
        (("serve", "nowhere", "--http", "here:there"), "expected HOST:PORT"),
        (("serve", "nowhere", "--http", "0.0.0.0:0"), "--allow-host"),
        (("serve", "nowhere", "--http", "0", "--allow-origin", "here"), "expected an origin"),
        (("serve", "nowhere", "--http", "0", "--rate", "inf"), "expected finite numbers"),
        (("serve", "nowhere", "--open-metrics"), "only with --http on loopback"),
        (("token", "add", "nowhere", "--role", "viewer"), "nowhere: no campaign here"),
        (("serve", "nowhere", "--http", "0", "--guard-python", "gone"), "not an executable file"),
        (("new", "made", "--problem", "nowhere"), "no folder and no library problem"),
        (("new", "made", "--problem", "empty"), "empty/definition.json: no such file"),
        (("new", "made", "--problem", "half"), "half/workload.jsonl: no such file"),
        (("new", "made", "--problem", "rmsnorm", "--name", "a/b"), "name: 'a/b'"),
        (("new", "made", "--problem", "rmsnorm", "--seed", "gone.py"), "gone.py"),
        (("agent", "add", "nowhere", "eve"), "nowhere: no campaign here"),
        (("evaluate", "--problem", "rmsnorm", "--solution", "gone.py"), "gone.py: no such file"),
    ],
)
def test_a_mistake_is_one_line_and_a_status(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("empty", "half"):
        (tmp_path / name).mkdir()
    (tmp_path / "half" / "definition.json").write_text(json.dumps(DEFINITION))
    status, out, err = run(*arguments)
    assert status == 2
    assert out == ""
    (line,) = err.strip().splitlines()
    assert line.startswith("kernelarc-mcp: ")
    assert expected in line
    assert not (tmp_path / "made").exists()


def test_doctor_names_what_is_missing(run: Run, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such module >&2\nexit 3\n")
    broken.chmod(0o755)
    status, out, _ = run("doctor", "--guard-python", str(broken), "--json")
    assert status == 0
    found = {row["name"]: row for row in json.loads(out)}
    assert found["guard python"]["state"] == "missing"
    assert "no such module" in found["guard python"]["detail"]
    assert found["sandbox"]["state"] == "missing"
    assert found["sandbox"]["detail"] == "unknown: the guard python does not run"
    assert {"python", "C++ compiler", "cores", "device locks", "cache"} <= set(found)
    short = run("doctor", "--guard-python", str(broken))[1].strip().splitlines()[-1]
    assert short == "This machine cannot judge yet: see guard python, sandbox above."


def test_doctor_of_a_directory_says_whether_it_is_in_order_and_ends_with_status_1_if_not(
    run: Run, place: Place, tmp_path: Path
) -> None:
    status, out, _ = run("doctor", str(place.folder))
    assert status == 0 and out.strip().splitlines()[-1] == f"{place.folder} is in order."
    gone, empty = tmp_path / "nowhere", tmp_path / "empty"
    empty.mkdir()
    for folder, names in ((gone, "directory"), (empty, "database")):
        status, out, err = run("doctor", str(folder))
        assert (status, err) == (1, "")
        assert out.strip().splitlines()[-1] == f"{folder} is not in order: see {names} above."
    status, out, _ = run("doctor", str(gone), "--json")
    (row,) = json.loads(out)
    assert (status, row["detail"]) == (1, f"{gone}: no such directory")


def test_status_says_when_no_server_works_on_what_is_queued(run: Run, place: Place) -> None:
    assert "No server works" not in run("status", str(place.folder))[1]
    host = Host.open(place.folder)
    try:
        host.register("ada")
        host.submit("ada", source=KERNEL)
    finally:
        host.close()
    said = " ".join(run("status", str(place.folder))[1].split())
    assert "No server works on this campaign: 1 submission waits for one" in said
