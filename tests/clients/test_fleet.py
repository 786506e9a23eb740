"""The fleet: its commands, what it reads from clients' outputs, and agents that stop too early."""

import os
import shlex
import sys
from pathlib import Path

import pytest
from client_processes import end, start
from headless import Usage, usage_of
from host_places import scripted_guard
from server_process import http_server

from kernelarc_guard.problem import read_problem
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings
from kernelarc_mcp.views import UsageView

STAND_IN = """#!{python}
# Claude Code's stand-in: one attempt, with what `connect` wrote, then it stops too early.
import json, subprocess, sys
assert sys.argv[1] == "-p" and "mcp__kernelarc" in sys.argv, sys.argv
server = json.load(open(".mcp.json"))["mcpServers"]["kernelarc"]
assert server["headers"] == {{"Authorization": "Bearer ${{KERNELARC_TOKEN}}"}}
tuner = [sys.executable, {tuner!r}, "--url", server["url"], "--attempts", "1"]
subprocess.run(tuner, check=True)
print(json.dumps({{"total_cost_usd": 0.5, "usage": {{"input_tokens": 7, "output_tokens": 3}}}}))
"""


def make(folder: Path, agents: list[str], attempts: int) -> None:
    settings = CampaignSettings(name="fleet", problem="rmsnorm", agents=agents, attempts=attempts)
    Host.create(folder, settings, read_problem(data_dir("kernels") / "rmsnorm"), None)


def test_an_agent_that_stops_early_is_started_again_until_its_attempts_are_spent(
    tmp_path: Path,
) -> None:
    folder, work, stand_in = tmp_path / "campaign", tmp_path / "work", tmp_path / "bin" / "claude"
    make(folder, ["ada"], 2)
    stand_in.parent.mkdir()
    tuner = str(data_dir("clients") / "tuner.py")
    stand_in.write_text(STAND_IN.format(python=sys.executable, tuner=tuner))
    stand_in.chmod(0o755)
    with http_server(folder, scripted_guard(tmp_path)) as (_, url):
        status, out, errors = end(
            start(
                *("fleet.py", str(folder), "--url", url, "--work", str(work)),
                PATH=f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}",
            )
        )
    assert status == 0, errors
    assert [line for line in out.splitlines() if ", run " in line] == [
        "ada: claude, run 1",
        "ada: claude, run 2",
    ]
    host = Host.open(folder)
    assert host.brief("ada").state.attempts_left == 0
    usage = host.board("ada").agents[0].usage
    host.close()
    assert usage == UsageView(
        runs=2,
        input_tokens=14,
        output_tokens=6,
        runs_with_tokens=2,
        cost_usd=1.0,
        runs_with_cost=2,
    )
    token = "ka_"
    for path in (work / "ada").rglob("*"):
        assert path.is_dir() or token not in path.read_text()


def test_a_dry_run_prints_commands_for_clients_in_turn_and_starts_nothing(tmp_path: Path) -> None:
    folder, work = tmp_path / "campaign", tmp_path / "work"
    make(folder, ["ada", "bob", "eve"], 6)
    clients = ("--client", "claude", "codex", "gemini", "--model", "claude=m1", "gemini=m2")
    status, out, errors = end(
        start("fleet.py", str(folder), *clients, "--agents", "3", "--dry-run", "--work", str(work))
    )
    assert status == 0, errors
    commands = [shlex.split(line.partition(" && ")[2]) for line in out.splitlines()]
    assert [next(word for word in c if "=" not in word) for c in commands] == [
        "claude",
        "codex",
        "gemini",
    ]
    assert commands[0][commands[0].index("--model") + 1] == "m1"
    assert "-m" not in commands[1] and commands[2][commands[2].index("-m") + 1] == "m2"
    assert not work.exists()
    host = Host.open(folder)
    assert host.board().attempts_used == 0
    host.close()


def test_more_agents_than_the_campaign_has_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "campaign", ["ada"], 2)
    status, _, errors = end(start("fleet.py", str(tmp_path / "campaign"), "--agents", "2"))
    assert status == 1
    assert errors == "fleet: the campaign has 1 agents (ada)\n"


def test_a_client_that_is_not_installed_is_named_before_anything_is_prepared(
    tmp_path: Path,
) -> None:
    make(tmp_path / "campaign", ["ada"], 2)
    work, nowhere = tmp_path / "work", tmp_path / "nowhere"
    status, _, errors = end(
        start("fleet.py", str(tmp_path / "campaign"), "--work", str(work), PATH=str(nowhere))
    )
    assert status == 1
    assert errors == "fleet: claude is not installed here, or not on the PATH\n"
    assert not work.exists()


@pytest.mark.parametrize(
    ("client", "output", "expected"),
    [
        (
            "claude",
            '{"total_cost_usd": 1.5, "usage": {"input_tokens": 1, "cache_read_input_tokens": 4,'
            ' "output_tokens": 2}}\n',
            Usage(5, 2, 1.5, 4),
        ),
        (
            "codex",
            'warning: {x\n{"type": "item"}\n{"type": "turn.completed", "usage":'
            ' {"input_tokens": 8, "cached_input_tokens": 6, "output_tokens": 9}}\n',
            Usage(8, 9, cached_tokens=6),
        ),
        (
            "gemini",
            'YOLO\n{\n  "stats": {"models": {"a": {"tokens": {"prompt": 3, "candidates": 1}},\n'
            '"b": {"tokens": {"prompt": 2, "candidates": 2}}}}\n}\n',
            Usage(5, 3),
        ),
        (
            "gemini",
            '{"stats": {"models": {"g-1": {"tokens": {"prompt": 3, "candidates": 1, "cached": 2}}}}}\n',
            Usage(3, 1, cached_tokens=2, model="g-1"),
        ),
        ("claude", "killed", Usage()),
        ("claude", '{"total_cost_usd": "much", "usage": null}\n', Usage()),
        ("codex", '{"type": "turn.completed", "usage": [1]}\n' + "{" * 200_000, Usage()),
        ("gemini", '{"stats": {"models": {"a": null, "b": {"tokens": 7}}}}\n', Usage()),
    ],
)
def test_what_a_client_says_it_used_is_read(client: str, output: str, expected: Usage) -> None:
    assert usage_of(client, output) == expected
