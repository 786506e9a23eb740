"""A server killed while its client waits: the old ticket gives the verdict, and one attempt was charged."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from command_line import Run
from host_places import make_campaign, planned, scripted_guard
from waiting import OverHttp, OverStdio, Served

from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.ledger import Ledger

STAGES: Final = ("asked", "build", "correctness", "timing", "confirming", "answered")
"""Where the guard holds: nothing heard of it yet, three stages of the screen, and two after it."""
PATIENCE: Final = 120.0
Start = Callable[[], Served]


@pytest.fixture(params=["http", "stdio"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """Return what starts one more server of a campaign with one agent's client."""
    folder, guard = tmp_path / "campaign", scripted_guard(tmp_path)
    tokens = dict(make_campaign(folder, attempts=40, canary_rate=0.0))
    if request.param == "http":
        return lambda: OverHttp(folder, guard, tokens["ada"])
    return lambda: OverStdio(folder, guard, "ada")


@contextmanager
def running(server: Served) -> Iterator[Served]:
    """End a server that is left, and its client."""
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()
        server.close()


def until(seen: Callable[[], bool]) -> None:
    """Wait until something is seen."""
    end = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.01)


def settled(folder: Path, ticket: str) -> bool:
    ledger = Ledger.open_read_only(folder)
    try:
        return any((r.kind, r.submission) == ("settled", ticket) for r in ledger.rows_after(0))
    finally:
        ledger.close()


def submit(server: Served, number: int, plan: str) -> str:
    sent = server.call(
        "submit_candidate", source=planned(number, plan), summary=plan, wait_seconds=0
    )
    ticket: str = sent["ticket"]
    return ticket


def verdict(server: Served, ticket: str) -> dict[str, object]:
    view, turn = server.call("wait_submission", ticket=ticket), 2
    while view["state"] != "done":
        view, turn = server.call("wait_submission", ticket=ticket, turn=turn), turn + 1
    return view


def test_whatever_the_judgement_was_at_the_old_ticket_gives_the_verdict_after_a_restart(
    start: Start, tmp_path: Path, run: Run
) -> None:
    folder = tmp_path / "campaign"
    server = start()
    with ExitStack() as ends:
        ends.enter_context(running(server))
        server.call("get_brief")
        for number, stage in enumerate(STAGES, 1):
            mark = folder / "cache" / f"halt-{stage}"
            # Faster than the record each time: the confirmation is reached.
            ticket = submit(server, number, f"halts_{stage}:{3 * number}.0")
            server.begin_waiting(ticket)
            mark.parent.mkdir(exist_ok=True)
            mark.with_suffix(".go").touch()
            until(mark.exists)
            assert not settled(folder, ticket), stage
            server.kill()
            server.lost()
            # The next stage kills this one.
            server = ends.enter_context(running(start()))
            view = verdict(server, ticket)
            assert (view["verdict"], view["reason"]) == ("KEEP", "confirmed"), stage
            state = view["state_after"]
            assert isinstance(state, dict) and state["attempts_used"] == number, stage
    assert run("verify", str(folder))[0] == 0


def test_what_was_queued_or_settled_but_not_answered_has_its_verdict_after_a_restart(
    start: Start, tmp_path: Path, run: Run
) -> None:
    folder = tmp_path / "campaign"
    (folder / "cache").mkdir()
    first = start()
    with running(first):
        first.call("get_brief")
        holds = submit(first, 1, "halts_asked:5.0")
        (folder / "cache" / "halt-asked.go").touch()
        until((folder / "cache" / "halt-asked").exists)
        queued = submit(first, 2, "gain:-4.0")
        first.begin_waiting(queued)
        first.kill()
        first.lost()
    # This one judges; the client of the next one waits at a server that does not.
    judging = start()
    with running(judging):
        assert verdict(judging, queued)["verdict"] == "REVERT"
        assert verdict(judging, holds)["verdict"] == "KEEP"
        ticket = submit(judging, 3, "halts_confirming:9.0")
        asked = start()
        with running(asked):
            asked.begin_waiting(ticket)
            (folder / "cache" / "halt-confirming.go").touch()
            until((folder / "cache" / "halt-confirming").exists)
            os.kill(asked.process.pid, signal.SIGSTOP)
            judging.kill()
            after = start()
            with running(after):
                until(lambda: settled(folder, ticket))
                asked.kill()
                asked.lost()
                view = verdict(after, ticket)
    assert (view["verdict"], view["reason"]) == ("KEEP", "confirmed")
    host = Host.open(folder)
    assert host.brief("ada").state.attempts_used == 3
    host.close()
    assert run("verify", str(folder))[0] == 0
