"""The clients as a user starts them, against a real server process and a scripted guard."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import minimal
import pytest
from client_processes import end, start
from host_places import make_campaign, opened, scripted_guard, silent_guard
from http_door import until
from server_process import http_server
from tuning.connection import COUNTED, HANDED_ON, KNOWN, NOBODY, server_environment

from kernelarc_guard.problem import read_problem
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings

ATTEMPTS = 5
"""Of each of the two agents."""


@dataclass(frozen=True)
class Running:
    """A served campaign."""

    folder: Path
    url: str
    tokens: dict[str, str]
    guard: str
    viewer: str


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """Return a campaign of two agents."""
    yield from serving(tmp_path, "ada", "bob")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Return a campaign for tests that spend a part of one agent's attempts."""
    yield from serving(tmp_path_factory.mktemp("shared"), "ada", "bob", "eve")


def serving(place: Path, *agents: str) -> Iterator[Running]:
    folder, guard = place / "campaign", scripted_guard(place)
    settings = CampaignSettings(
        name="tuned",
        problem="rmsnorm",
        agents=list(agents),
        attempts=len(agents) * ATTEMPTS,
        r_draft=2,
    )
    problem = read_problem(data_dir("kernels") / "rmsnorm")
    tokens = dict(Host.create(folder, settings, problem, None))
    with opened(folder) as host:
        viewer = host.issue_token("eye", "viewer")
    with http_server(folder, guard) as (_, url):
        yield Running(folder, url, tokens, guard, viewer)


def test_two_tuners_spend_their_attempts_obey_and_draft(running: Running) -> None:
    over_http = start("tuner.py", "--url", running.url, KERNELARC_TOKEN=running.tokens["ada"])
    over_stdio = start(
        *("tuner.py", "--stdio-campaign", str(running.folder), "--name", "bob"),
        KERNELARC_GUARD_PYTHON=running.guard,
    )
    tickets = []
    for name, process in (("ada", over_http), ("bob", over_stdio)):
        status, out, errors = end(process)
        assert status == 0, errors
        assert f"{name}: DRAFT under" in out
        assert out.splitlines()[-1] == f"{name}: STOP: the budget is spent"
        tickets += re.findall(r"#\d+ (\S+) (?:KEEP|ACCEPT|REVERT|REJECT)", out)
    assert len(tickets) == len(set(tickets)) == 2 * ATTEMPTS
    host = Host.open(running.folder)
    board = host.board("ada")
    assert board.attempts_used == 2 * ATTEMPTS
    assert all(row.drafts >= 1 for row in board.agents)


def test_a_tuner_stops_after_the_attempts_it_was_given(shared: Running) -> None:
    arguments = ["--url", shared.url, "--attempts", "1"]
    status, out, errors = end(start("tuner.py", *arguments, KERNELARC_TOKEN=shared.tokens["ada"]))
    assert status == 0, errors
    assert out.splitlines()[-1] == "ada: 1 attempts made"


def test_a_restarted_tuner_does_not_pay_for_its_first_steps_again(shared: Running) -> None:
    for number in range(2):
        arguments = ["--url", shared.url, "--attempts", "1"]
        status, out, errors = end(
            start("tuner.py", *arguments, KERNELARC_TOKEN=shared.tokens["eve"])
        )
        assert status == 0, errors
        assert "duplicate" not in out
        host = Host.open(shared.folder)
        assert host.brief("eve").state.attempts_used == number + 1
        host.close()


def test_the_minimal_client_prints_verdict_and_next_step(shared: Running, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("PLAN = 'broken'\n\n\ndef run(x, weight):\n    return x\n")
    process = start("minimal.py", shared.url, str(kernel), KERNELARC_TOKEN=shared.tokens["bob"])
    status, out, errors = end(process)
    assert status == 0, errors
    assert "REJECT build_failed: kernel.py:1: expected something else." in out
    assert "submitting kernel.py, and waiting" in out
    assert "  Queued, place 1.\n" in errors


def test_the_minimal_client_sends_either_binding_of_cpp(shared: Running, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cpp"
    for binding, header in (
        ("tvm-ffi", "tvm/ffi/container/tensor.h"),
        ("dlpack", "dlpack/dlpack.h"),
    ):
        kernel.write_text(f"#include <{header}>\n// PLAN\nPLAN = 'broken'\nint run();\n")
        token = shared.tokens["bob"]
        status, out, errors = end(
            start("minimal.py", shared.url, str(kernel), KERNELARC_TOKEN=token)
        )
        assert status == 0 and "REJECT build_failed" in out, out + errors
        host = Host.open(shared.folder)
        with host.campaign.journal.reading() as state:
            proposal = list(state.attempts.values())[-1].proposal
        host.close()
        assert proposal.binding == binding
        assert proposal.destination_passing


def test_the_minimal_client_pays_for_no_draft_that_declares_nothing(tmp_path: Path) -> None:
    folder, kernel, other = tmp_path / "campaign", tmp_path / "kernel.py", tmp_path / "other.py"
    kernel.write_text("PLAN = 'gain:-9'\n\n\ndef run(x, y):\n    return x + y\n")
    other.write_text("PLAN = 'broken'\n\n\ndef run(left, right):\n    return right * 1 + left\n")
    token = dict(make_campaign(folder, r_draft=1))["ada"]
    with http_server(folder, scripted_guard(tmp_path)) as (_, url):
        status, out, errors = end(start("minimal.py", url, str(kernel), KERNELARC_TOKEN=token))
        assert status == 0 and "DRAFT: r reached 1" in out, out + errors
        arguments = ("minimal.py", url, str(other))
        status, out, errors = end(start(*arguments, KERNELARC_TOKEN=token))
        assert status == 1 and "directive is DRAFT" in errors and "algorithm=NAME" in errors
        with opened(folder) as host:
            assert host.board("ada").attempts_used == 1
        declared = ("algorithm=right first", "layout=rows")
        status, out, errors = end(start(*arguments, *declared, KERNELARC_TOKEN=token))
        assert status == 0 and "REJECT build_failed" in out, out + errors
    with opened(folder) as host, host.campaign.journal.reading() as state:
        proposal = list(state.attempts.values())[-1].proposal
    assert (proposal.algorithm, proposal.layout) == ("right first", "rows")


def submitted(folder: Path) -> bool:
    with opened(folder) as host, host.campaign.journal.reading() as state:
        return bool(state.unsettled)


def test_the_minimal_client_follows_its_submission_over_an_end_of_the_server(
    tmp_path: Path,
) -> None:
    folder, kernel = tmp_path / "campaign", tmp_path / "kernel.py"
    kernel.write_text("PLAN = 'broken'\n\n\ndef run(x, y):\n    return x\n")
    token = dict(make_campaign(folder))["ada"]
    with http_server(folder, silent_guard(tmp_path)) as (server, url):
        arguments = ("minimal.py", url, str(kernel))
        client = start(*arguments, KERNELARC_TOKEN=token)
        until(lambda: submitted(folder), "it is in the ledger")
        server.kill()
        assert client.stdout is not None
        while not client.stdout.readline().startswith("the server went away"):
            assert client.poll() is None
    with http_server(folder, scripted_guard(tmp_path), port=urlsplit(url).port or 0):
        for process in (client, start(*arguments, KERNELARC_TOKEN=token)):
            status, out, errors = end(process)
            assert status == 0 and "REJECT build_failed" in out, out + errors
    with opened(folder) as host:
        assert host.board("ada").attempts_used == 1


def test_what_a_user_does_wrong_with_the_minimal_client_is_one_line(
    shared: Running, tmp_path: Path
) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x, weight):\n    return x\n")
    token, gone = shared.tokens["bob"], str(tmp_path / "gone.py")
    for arguments, given, said in (
        ((shared.url, str(kernel)), "wrong", "knows no such token"),
        (("http://127.0.0.1:9/mcp", str(kernel)), token, "http://127.0.0.1:9/mcp: nobody answers"),
        (
            (shared.url, str(kernel)),
            shared.viewer,
            f"{shared.url}: get_brief: this is the token of",
        ),
        ((shared.url, str(kernel), "lens=new"), token, "[algorithm=NAME]"),
        ((shared.url, str(kernel)), "", "KERNELARC_TOKEN"),
        ((), token, "usage: "),
        ((shared.url, gone), token, f"minimal: {gone}: No such file"),
        (("not a url", str(kernel)), token, "not a url"),
        ((shared.url.removesuffix("mcp"), str(kernel)), token, "its path is /mcp"),
    ):
        status, out, errors = end(start("minimal.py", *arguments, KERNELARC_TOKEN=given))
        assert (status, out) == (1, ""), errors
        (line,) = errors.strip().splitlines()
        assert said in line


def test_a_tuner_without_a_token_says_what_to_set() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "KERNELARC_TOKEN"}
    script = str(data_dir("clients") / "tuner.py")
    ended = subprocess.run(
        [sys.executable, script, "--url", "http://127.0.0.1:1/mcp"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "KERNELARC_TOKEN" in ended.stderr


def test_a_server_process_of_ones_own_is_given_its_settings_and_no_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("TOKEN", "ka_secret"), ("AGENT", "another"), ("GUARD_PYTHON", "python")):
        monkeypatch.setenv(f"KERNELARC_{name}", value)
    given = server_environment("ada")
    assert given["KERNELARC_AGENT"] == "ada" and given["KERNELARC_GUARD_PYTHON"] == "python"
    assert set(given) <= {*HANDED_ON, "KERNELARC_AGENT"} and "ka_secret" not in given.values()


def test_a_tuner_that_reaches_no_server_says_so_in_one_line() -> None:
    url = "http://127.0.0.1:9/mcp"
    status, _, errors = end(start("tuner.py", "--url", url, KERNELARC_TOKEN="none"))
    assert (status, errors) == (1, f"tuner: {url}: {NOBODY}\n")


def test_all_clients_have_the_same_words_for_a_server_that_does_not_take_them() -> None:
    assert (minimal.KNOWN, minimal.NOBODY) == (KNOWN, NOBODY)
    assert minimal.COUNTED == COUNTED


def test_only_the_steps_of_a_judgement_are_told() -> None:
    for message, step in (
        (
            "Queued, place 2. calibrating: pair 4: a block is measured.",
            "Queued, place 2. calibrating",
        ),
        ("correctness: workload 3 of 16", "correctness"),
        ("timing: timing started", "timing"),
        ("timing: Confirming: pair 7: a block is measured", "timing: Confirming"),
        ("build: waiting for the device", "build: waiting for the device"),
    ):
        assert COUNTED.sub("", message) == step


def test_a_tuner_refuses_a_problem_it_has_no_family_for(tmp_path: Path) -> None:
    tokens = dict(make_campaign(tmp_path / "campaign"))
    with http_server(tmp_path / "campaign", scripted_guard(tmp_path)) as (_, url):
        status, _, errors = end(start("tuner.py", "--url", url, KERNELARC_TOKEN=tokens["ada"]))
    assert status == 1
    assert errors == "tuner: the tuner has no kernel family for 'add'\n"
