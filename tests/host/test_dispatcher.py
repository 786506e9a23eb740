"""The dispatcher with real processes: election, exact charging, faults and resuming."""

import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from dispatching import serving
from host_places import (
    judge_all,
    make_campaign,
    make_campaign_with_seed,
    opened,
    planned,
)

from kernelarc_guard.protocol import Request, Result
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.election import SeatTaken
from kernelarc_mcp.host.guard_client import GuardClient, GuardRefused
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.verify import verify


def wait_until_done(host: Host, agent: str, ticket: str) -> None:
    """Poll as a waiting client does, until there is a verdict."""

    async def poll() -> None:
        with anyio.fail_after(60):
            while host.submission(agent, ticket).state != "done":
                await anyio.sleep(0.02)

    anyio.run(poll)


def wait_until_judging(host: Host, ticket: str) -> int:
    """Wait until the guard showed a sign of life, and return the dispatcher's process id."""

    async def poll() -> int:
        with anyio.fail_after(60):
            while host.submission("ada", ticket).percent == 0:
                await anyio.sleep(0.02)
        return claims(host)[-1]

    return anyio.run(poll)


def claims(host: Host) -> list[int]:
    rows = host.campaign.journal.ledger.rows_after(0)
    return [json.loads(row.body)["process"] for row in rows if row.kind == "judging"]


def test_a_faster_candidate_is_confirmed_and_becomes_the_record(
    folder: Path, guard: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kernelarc_mcp.host.duty_work")
    with opened(folder) as host:
        ticket = host.submit("ada", source=planned(1, "gain:20")).ticket
        judge_all(folder, guard)
        view = host.submission("ada", ticket)
        assert (view.verdict, view.reason) == ("KEEP", "confirmed")
        assert view.stages["correctness"].state == "passed"
        assert view.lower is not None and view.speedup is not None and view.lower < view.speedup
        record = host.board("ada").record
        assert (record.submission, record.speedup) == (ticket, view.speedup)
        assert view.state_after.branch == ticket and view.state_after.r == 0
    assert verify(folder) == []
    begun, ready = (one.getMessage() for one in caplog.records if "notable" in vars(one))
    assert begun.startswith("calibrating: ") and ready.endswith("; ready to judge")


def test_each_kind_of_outcome_counts_as_the_rules_say(folder: Path, guard: str) -> None:
    plans = {"broken": "REJECT", "wrong": "REVERT", "gain:0": "ACCEPT", "gain:-20": "REVERT"}
    with opened(folder) as host:
        tickets = {
            plan: host.submit("ada", source=planned(n, plan)).ticket for n, plan in enumerate(plans)
        }
        judge_all(folder, guard)
        for plan, verdict in plans.items():
            assert host.submission("ada", tickets[plan]).verdict == verdict
        state = host.submission("ada", tickets["broken"]).state_after
        assert (state.r, state.attempts_used) == (3, 4)
        assert state.branch == tickets["gain:0"] and state.directive == "RESTORE"
        restored = (folder / "agents" / "ada" / "kernel.py").read_text()
        assert "gain:0" in restored
    assert verify(folder) == []


def test_a_restore_moves_what_differs_away_and_loses_nothing(folder: Path, guard: str) -> None:
    workspace = folder / "agents" / "ada"
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "wrong"), filename="reference.py")
        host.submit("ada", source=planned(2, "broken"), filename="reference.py")
        (workspace / "reference.py").write_text("# my work in progress\n")
        judge_all(folder, guard)
        seed = host.snapshot("ada", "seed").text
    assert (workspace / "reference.py").read_text() == seed
    kept = workspace / "previous" / "001" / "reference.py"
    assert kept.read_text() == "# my work in progress\n"


def test_a_workspace_holds_the_new_branch_once_it_is_one(folder: Path, guard: str) -> None:
    workspace = folder / "agents" / "ada"
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "gain:30"), filename="fast.py")
        host.submit("bob", source=planned(2, "gain:-1"), filename="close.py")
        (workspace / "fast.py").write_text("# an idea on top of it\n")
        judge_all(folder, guard)
    assert (workspace / "fast.py").read_text() == planned(1, "gain:30")
    assert (workspace / "previous/001/fast.py").read_text() == "# an idea on top of it\n"
    assert (folder / "agents/bob/close.py").read_text() == planned(2, "gain:-1")


def test_over_http_no_answer_names_a_folder_of_the_server(folder: Path, guard: str) -> None:
    with opened(folder) as host:
        ticket, _ = host.submit("ada", source=planned(1, "wrong"))
        judge_all(folder, guard)
        near = host.submission("ada", ticket).next_step
    assert near.startswith("If others") and str(folder) in near
    far = Host.open(folder, same_machine=False)
    brief, step = far.brief("ada"), far.submission("ada", ticket).next_step
    far.close()
    assert brief.workspace == "" and "RESTORE" in step
    assert str(folder) not in brief.model_dump_json() + step


def test_a_workspace_that_cannot_be_restored_does_not_stop_the_dispatcher(
    folder: Path, guard: str
) -> None:
    workspace = folder / "agents" / "ada"
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "wrong"))
        following = host.submit("bob", source=planned(2, "gain:0")).ticket
        workspace.rename(folder / "elsewhere")
        workspace.write_text("a file in its place")
        judge_all(folder, guard)
        assert host.submission("bob", following).verdict == "ACCEPT"
        assert "view_snapshot shows its files" in host.brief("ada").next_step


def test_the_plateau_forces_a_draft_that_must_be_new(tmp_path: Path, guard: str) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder, r_draft=2)
    with opened(folder) as host:
        lens = host.brief("ada").state.lens
        body = "".join(f"    x{n} = x * {n}\n" for n in range(20))
        text = planned(1, "gain:0").replace("    scale_1", f"{body}    scale_1")
        base = host.submit("ada", source=text, algorithm="plain").ticket
        host.submit("ada", source=planned(2, "wrong"))
        other = host.submit("bob", source=planned(3, "gain:30")).ticket
        with pytest.raises(Exception, match="only while your directive is DRAFT"):
            host.snapshot("ada", other)
        judge_all(folder, guard)
        brief = host.brief("ada")
        state = brief.state
        assert state.directive == "DRAFT" and state.lens != lens and state.r == 2
        assert (
            "at most 80% of its text" in brief.next_step and "costs an attempt" in brief.next_step
        )
        assert "gain:30" in host.snapshot("ada", other).text

        light = text.replace("scale_1 = 1", "scale_1 = 2")
        edit = host.submit("ada", source=light, algorithm="other").ticket
        assert host.submission("ada", edit).reason == "draft_not_new"
        undeclared = host.submit("ada", source="import torch\n" + "def run(x, y): return y + x\n")
        assert host.submission("ada", undeclared.ticket).reason == "draft_not_new"
        assert host.brief("ada").state.directive == "DRAFT"

        draft = host.submit(
            "ada",
            source="import torch\ndef run(a, b):\n    return b.add(a)\nPLAN = 'gain:-50'\n",
            algorithm="swapped",
        ).ticket
        judge_all(folder, guard)
        view = host.submission("ada", draft)
        assert view.verdict == "REVERT"
        after = view.state_after
        assert (after.branch, after.r, after.drafts) == (draft, 0, 1)
        assert after.directive == "CONTINUE" and base != draft
    assert verify(folder) == []


def test_the_reference_is_judged_once_as_a_line_to_beat(tmp_path: Path, guard: str) -> None:
    folder = tmp_path / "campaign"
    make_campaign_with_seed(folder)
    judge_all(folder, guard)
    judge_all(folder, guard)
    with opened(folder) as host:
        lines = {line.name: line.speedup for line in host.board().baselines}
        # The reference's own times stand in the brief, beside the record's.
        for shown in host.brief("ada").workloads:
            assert shown.reference_us is not None and shown.reference_us > 0
        assert lines["seed"] == 1.0 and lines["reference"] == pytest.approx(1.0, rel=0.01)
        assert all(workload.record_us == 1000.0 for workload in host.brief("ada").workloads)
        assert [r.kind for r in host.campaign.journal.ledger.rows_after(0)].count("baselined") == 1
    assert verify(folder) == []


def test_whoever_waits_is_told_that_the_guard_cannot_start(folder: Path, tmp_path: Path) -> None:
    async def look(host: Host, ticket: str) -> str:
        async with anyio.create_task_group() as group:
            await group.start(Dispatcher(host, str(tmp_path / "no-guard")).run)
            with anyio.fail_after(60):
                while "Nothing is judged" not in host.submission("ada", ticket).message:
                    await anyio.sleep(0.02)
            message = host.submission("ada", ticket).message
            group.cancel_scope.cancel()
        return message

    with opened(folder) as host:
        ticket = host.submit("ada", source=planned(1, "gain:0")).ticket
        message = anyio.run(look, host, ticket)
        assert "place 1" in message and "cannot be started" in message
        assert host.submission("ada", ticket).state == "queued"


def test_a_branch_that_is_no_record_is_on_the_board_without_a_gain(
    folder: Path, guard: str
) -> None:
    with opened(folder) as host:
        kept = host.submit("ada", source=planned(1, "gain:20")).ticket
        close = host.submit("bob", source=planned(2, "gain:0.1")).ticket
        judge_all(folder, guard)
        rows = host.board("ada").rows
        assert [row.submission for row in rows] == [kept, "seed", close]
        assert rows[2].verdict == "ACCEPT" and rows[2].lower is None
        assert rows[2].speedup is None and rows[2].gain is not None and rows[2].gain <= 1


def test_a_guard_that_dies_once_is_restarted_and_charges_once(folder: Path, guard: str) -> None:
    with opened(folder) as host:
        ticket = host.submit("ada", source=planned(1, "die_once")).ticket
        judge_all(folder, guard)
        view = host.submission("ada", ticket)
        assert view.verdict == "ACCEPT" and view.state_after.attempts_used == 1
    assert verify(folder) == []


@pytest.mark.parametrize("plan", ["die", "refuse_late", "die_confirming", "loses_builder"])
def test_a_guard_that_never_survives_ends_in_guard_lost(
    folder: Path, guard: str, plan: str
) -> None:
    with opened(folder) as host:
        lost = host.submit("ada", source=planned(1, plan)).ticket
        following = host.submit("bob", source=planned(2, "gain:0")).ticket
        anyio.run(Dispatcher(host, guard, retry_seconds=0.01).run_until_idle)
        view = host.submission("ada", lost)
        assert (view.verdict, view.reason) == ("REVERT", "guard_lost")
        assert len([pid for pid in claims(host)]) == 4
        assert host.submission("bob", following).verdict == "ACCEPT"
        with host.campaign.journal.reading() as state:
            wealth = state.wealth["ada"]
        whole = host.settings.parameters.wealth / 2
        assert wealth == (
            whole if plan in ("die", "loses_builder") else pytest.approx(whole * (15 / 16) ** 3)
        )
    assert verify(folder) == []


def test_the_log_says_once_why_a_calibration_fails_until_the_reason_changes(
    folder: Path, guard: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kernelarc_mcp.host.duty_work")
    reasons = ["no such device", "no such device", "the reference raised"]
    ask = GuardClient.judge

    async def judge(self: GuardClient, request: Request, **how: Any) -> Result:
        if reasons:
            raise GuardRefused(reasons.pop(0))
        return await ask(self, request, **how)

    monkeypatch.setattr(GuardClient, "judge", judge)
    with opened(folder) as host:
        anyio.run(Dispatcher(host, guard, retry_seconds=0.0).run_until_idle)
    began, first, second, ready = (one.getMessage() for one in caplog.records)
    failed = "nothing is judged, a calibration failed: the guard refused: "
    assert first == f"{failed}no such device; tried again every 0 s"
    assert second == f"{failed}the reference raised; tried again every 0 s"
    assert began.startswith("calibrating: ") and ready.startswith("calibrated: ")
    assert verify(folder) == []


def test_after_a_refusal_a_submission_is_soon_judged_again(folder: Path, guard: str) -> None:
    async def judge(host: Host) -> None:
        with anyio.fail_after(120):
            await Dispatcher(host, guard, retry_seconds=3600).run_until_idle()

    with opened(folder) as host:
        ticket = host.submit("ada", source=planned(1, "refuse_once")).ticket
        anyio.run(judge, host)
        assert host.submission("ada", ticket).verdict == "ACCEPT"
        assert len(claims(host)) == 2


def test_refusals_that_are_not_the_candidates_fault_never_settle_it(
    folder: Path, guard: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(folder) as host:
        ticket = host.submit("ada", source=planned(1, "refuse_often")).ticket
        anyio.run(Dispatcher(host, guard, retry_seconds=0.01).run_until_idle)
        assert host.submission("ada", ticket).verdict == "ACCEPT"
        assert len(claims(host)) == 5
    (said,) = (one.getMessage() for one in caplog.records if one.name.endswith(".lane"))
    again = "s001 was not judged and is tried again in 0.01 s: "
    assert said == f"{again}The guard refused: the nursery does not start."
    assert verify(folder) == []


def test_a_known_binary_is_named_to_the_guard_and_agents_take_turns(
    folder: Path, guard: str
) -> None:
    with opened(folder) as host:
        first = [host.submit("ada", source=planned(n, "wrong")).ticket for n in range(3)]
        late = host.submit("bob", source=planned(9, "wrong")).ticket
        with host.campaign.journal.reading() as state:
            assert state.queue() == [first[0], late, first[1], first[2]]
        judge_all(folder, guard)
        rows = host.campaign.journal.ledger.rows_after(0)
        order = [row.submission for row in rows if row.kind == "judging"]
        assert order == [first[0], late, first[1], first[2]]
        with host.campaign.journal.reading() as state:
            assert set(state.binaries.values()) == {*first, late}


def test_a_killed_dispatcher_loses_no_attempt_and_another_process_finishes(
    folder: Path, guard: str
) -> None:
    with opened(folder) as host:
        hung = host.submit("ada", source=planned(1, "hang_once"), request_id="one").ticket
        waiting = host.submit("bob", source=planned(2, "gain:20")).ticket
        with serving(folder, guard) as first:
            assert wait_until_judging(host, hung) == first.pid
            with pytest.raises(SeatTaken):
                judge_all(folder, guard)
            with serving(folder, guard) as second:
                os.kill(first.pid, signal.SIGKILL)
                wait_until_done(host, "ada", hung)
                wait_until_done(host, "bob", waiting)
                assert claims(host) == [first.pid, second.pid, second.pid]
        assert host.submission("ada", hung).verdict == "ACCEPT"
        again = host.submit("ada", source=planned(1, "hang_once"), request_id="one")
        assert again == (hung, False)
        assert host.brief("ada").state.attempts_used == 1
    assert verify(folder) == []


def test_two_dispatchers_judge_each_submission_once(folder: Path, guard: str) -> None:
    with opened(folder) as host, serving(folder, guard), serving(folder, guard):
        tickets = [host.submit("ada", source=planned(n, "gain:0")).ticket for n in range(4)]
        for ticket in tickets:
            wait_until_done(host, "ada", ticket)
        assert len(set(claims(host))) == 1 and len(claims(host)) == 4
    assert verify(folder) == []
