"""A server killed together with a real guard in the middle of a judgement."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from guard_process import SCHEDULE, problem
from own_device import guard_python
from waiting import OverHttp

from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings
from kernelarc_mcp.host.verify import verify

LOOPS = "def run(x, scale):\n    while True:\n        pass\n"
PATIENCE = 240.0


def create(folder: Path) -> str:
    """Create a campaign whose judgements take seconds; return its agent's token."""
    settings = CampaignSettings(
        name="trial",
        problem="scaled_tanh",
        agents=["ada"],
        attempts=4,
        schedule=Schedule.model_validate(SCHEDULE | {"start_seconds": 8.0, "call_seconds": 2.0}),
        canary_rate=0.0,
    )
    return dict(Host.create(folder, settings, Problem.model_validate(problem()), None))["ada"]


def stage_of(folder: Path, ticket: str) -> str:
    """Return the stage a submission was last heard of at; empty before."""
    with closing(sqlite3.connect(folder / "campaign.db")) as connection:
        row = connection.execute("SELECT stage FROM progress WHERE ticket = ?", [ticket]).fetchone()
    return "" if row is None or row[0] is None else str(row[0])


def test_a_judgement_cut_off_with_its_server_is_made_again_and_charged_once(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    token = create(folder)
    server = OverHttp(folder, guard_python(), token)
    try:
        server.call("get_brief")
        # Its first call takes the two seconds it may: time to be killed in.
        sent = server.call("submit_candidate", source=LOOPS, summary="loops", wait_seconds=0)
        server.begin_waiting(sent["ticket"])
        end = time.monotonic() + PATIENCE
        while not stage_of(folder, sent["ticket"]):
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        server.kill()
    server.lost()
    server.close()
    server = OverHttp(folder, guard_python(), token)
    try:
        view, turn = server.call("wait_submission", ticket=sent["ticket"]), 2
        while view["state"] != "done":
            view = server.call("wait_submission", ticket=sent["ticket"], turn=turn)
            turn += 1
    finally:
        server.kill()
        server.close()
    assert (view["verdict"], view["reason"]) == ("REJECT", "timeout")
    assert view["state_after"]["attempts_used"] == 1
    assert verify(folder) == []
