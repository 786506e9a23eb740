"""Profiles in a campaign: own submissions only, charged in device time, kept and verified."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from host_places import judge_all, make_campaign, opened, planned, scripted_guard
from serving import answer_of, connected, refusal_of, text_of

from kernelarc_mcp.host.errors import BadRequest, BudgetSpent, NotAllowed, NotYours, UnknownTicket
from kernelarc_mcp.host.events import Row
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.profile_views import ProfileView

PLANS = ("gain:5", "gain:-1", "wrong", "no_counters", "die_profiling", "refuse_profiling")
"""Of s001 to s006; the first becomes the record."""


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, as the servers do."""
    return "asyncio"


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a guard that answers from a script, profiles too."""
    return scripted_guard(tmp_path_factory.mktemp("guard"), "scripted_profiler")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, guard: str) -> Path:
    """Return a campaign in which `ada` has one judged submission for each plan, and no profile."""
    folder = tmp_path_factory.mktemp("judged") / "c"
    make_campaign(folder, canary_rate=0.0)
    with opened(folder) as host:
        for number, plan in enumerate(PLANS, start=1):
            host.submit("ada", source=planned(number, plan), summary=plan)
    judge_all(folder, guard)
    return folder


@pytest.fixture(scope="module")
def profiled(judged: Path, guard: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same with profiles of all that may have one."""
    folder = tmp_path_factory.mktemp("profiled") / "c"
    shutil.copytree(judged, folder)
    for tickets in (("s001", "s002"), ("s004", "s005"), ("s006",)):
        with opened(folder) as host:
            for ticket in tickets:
                assert host.profile("ada", ticket).state == "queued"
        judge_all(folder, guard)
    return folder


@pytest.fixture
def host(profiled: Path) -> Iterator[Host]:
    """Open the campaign with profiles."""
    with opened(profiled) as host:
        yield host


def view(host: Host, ticket: str) -> ProfileView:
    """Return a profile that is there, which costs nothing."""
    rows = host.campaign.journal.ledger.last_seq()
    found = host.profile("ada", ticket)
    assert host.campaign.journal.ledger.last_seq() == rows
    return found


def test_a_profile_is_charged_in_device_time_and_not_in_attempts(host: Host, judged: Path) -> None:
    done = view(host, "s002")
    assert (done.state, done.bottleneck) == ("done", "bandwidth-bound")
    with opened(judged) as before, before.campaign.journal.reading() as state:
        held, left = state.device_ns, state.attempts_left("ada")
    with host.campaign.journal.reading() as state:
        leases = [step.device_ns for step in state.profiles.values()]
        assert len(leases) == 5 and all(ns > 0 for ns in leases)
        assert state.device_ns == held + sum(leases)
        assert state.agents["ada"].profile_ns == sum(leases)
        assert state.attempts_left("ada") == left
    assert (host.folder / "profiles" / "s002-0" / "metrics.csv").is_file()


def test_a_profile_that_failed_is_charged_while_the_device_was_held(host: Host) -> None:
    refused = host.profile_now("ada", "s006", "w8")
    assert (refused.state, refused.device_seconds) == ("failed", 1.0)
    assert "does not build" in refused.profile
    with host.campaign.journal.reading() as state:
        died = state.profiles[("s005", "w8")]
    assert died.answer is None and died.device_ns > 0, "a guard that died tells nothing itself"


def test_the_machine_code_is_compared_with_the_record_unless_it_is_the_record(host: Host) -> None:
    assert "record -> candidate" in view(host, "s002").profile
    assert "record -> candidate" not in view(host, "s001").profile


def test_the_answer_stays_under_2000_characters_and_says_what_it_leaves_out(host: Host) -> None:
    found = view(host, "s002")
    assert len(found.model_dump_json()) < 2000
    assert found.profile.startswith("bandwidth-bound: DRAM is at 81 %")
    assert "more lines in the raw report]" in found.profile
    assert (
        "timeline (CUPTI, in the solution's own process: decides nothing): 14 kernels, busy 84 %"
        in (found.profile)
    )
    assert "more of its kernels, copies and fills" in found.profile
    assert "limited by registers" in found.profile and "long_scoreboard" in found.profile


def test_missing_counters_are_a_sentence_in_the_answer(host: Host) -> None:
    found = view(host, "s004")
    assert (found.state, found.bottleneck) == ("done", "unknown")
    assert "hardware counters are not permitted" in found.profile
    assert "machine code: 99 instructions" in found.profile


def test_what_may_not_be_profiled_is_refused_and_nothing_is_stored(host: Host) -> None:
    rows = host.campaign.journal.ledger.last_seq()
    for agent, ticket, workload, error, said in (
        ("bob", "s001", "", NotYours, "submitted by ada"),
        ("ada", "s099", "", UnknownTicket, "no submission 's099'"),
        ("ada", "s003", "", NotAllowed, "was not judged right (REVERT wrong_result)"),
        ("ada", "s001", "w1", BadRequest, "'w1' is none of w8, w9"),
    ):
        with pytest.raises(error) as refused:
            host.profile(agent, ticket, workload)
        assert said in str(refused.value)
    assert host.campaign.journal.ledger.last_seq() == rows


def test_two_profiles_of_an_agent_may_wait_and_a_third_is_refused(
    judged: Path, tmp_path: Path
) -> None:
    shutil.copytree(judged, tmp_path / "c")
    with opened(tmp_path / "c") as host:
        for ticket in ("s001", "s002", "s001"):
            assert host.profile("ada", ticket).state == "queued"
        with pytest.raises(
            NotAllowed, match="2 profiles may wait at a time; yours: s001 on .*s002"
        ):
            host.profile("ada", "s004")


def test_a_queued_submission_waits_for_its_verdict_first(tmp_path: Path) -> None:
    make_campaign(tmp_path / "c", gpu_seconds=1e-6)
    with opened(tmp_path / "c") as host:
        host.submit("ada", source=planned(1, "gain:1"), summary="queued")
        with pytest.raises(NotAllowed, match="once it has a verdict"):
            host.profile("ada", "s001")


def test_a_campaign_whose_device_time_is_over_makes_no_profiles(
    judged: Path, guard: str, tmp_path: Path
) -> None:
    make_campaign(tmp_path / "c", canary_rate=0.0, gpu_seconds=1e-6)
    with opened(tmp_path / "c") as host:
        host.submit("ada", source=planned(1, "gain:-1"), summary="slower")
        judge_all(tmp_path / "c", guard)
        with pytest.raises(BudgetSpent, match="reading stays allowed"):
            host.profile("ada", "s001")


def test_what_waited_when_the_time_was_over_is_not_profiled(guard: str, tmp_path: Path) -> None:
    make_campaign(tmp_path / "c", canary_rate=0.0, gpu_seconds=500.0)
    with opened(tmp_path / "c") as host:
        for number, plan in enumerate(("long_profiling", "gain:-1"), start=1):
            host.submit("ada", source=planned(number, plan), summary=plan)
        judge_all(tmp_path / "c", guard)
        for ticket in ("s001", "s002"):
            host.profile("ada", ticket)
        judge_all(tmp_path / "c", guard)
        assert view(host, "s001").device_seconds == 1000.0
        late = host.profile_now("ada", "s002", "w8")
        assert (late.state, late.device_seconds) == ("failed", 0.0)
        assert "the campaign is over: the device was held for its 500 seconds" in late.profile
        assert late.next_step == "Go on without a profile."
    assert verify(tmp_path / "c") == []


def test_a_guard_that_died_may_be_asked_once_more_and_verify_finds_rows_that_do_not_follow(
    profiled: Path, guard: str, tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    shutil.copytree(profiled, folder)
    with opened(folder) as host:
        assert host.profile("ada", "s005").state == "queued"
        judge_all(folder, guard)
        failed = view(host, "s005")
        assert failed.state == "failed" and "process ended" in failed.profile
        assert "Go on without" in failed.next_step
    assert verify(folder) == []
    with sqlite3.connect(folder / "campaign.db") as database:
        database.execute("UPDATE event SET agent = 'bob' WHERE kind = 'profile_done'")
    database.close()
    assert any("another agent's" in line for line in verify(folder))


def test_rows_of_before_there_were_timelines_are_read_and_verified(
    profiled: Path, tmp_path: Path
) -> None:
    folder, head = tmp_path / "c", ""
    shutil.copytree(profiled, folder)
    with sqlite3.connect(folder / "campaign.db") as database:
        names = "seq, at, kind, agent, submission, body, prev_hash, hash"
        for values in database.execute(f"SELECT {names} FROM event ORDER BY seq").fetchall():
            row, body = Row(*values), json.loads(values[5])
            if row.kind == "profile_done" and body["answer"] is not None:
                del body["answer"]["profile"]["timeline"]
            row = replace(row, body=json.dumps(body), prev_hash=head or row.prev_hash)
            head = row.computed_hash()
            database.execute(
                "UPDATE event SET body = ?, prev_hash = ?, hash = ? WHERE seq = ?",
                [row.body, row.prev_hash, head, row.seq],
            )
    database.close()
    assert verify(folder) == []
    with opened(folder) as host:
        found = view(host, "s002")
        assert found.bottleneck == "bandwidth-bound" and "timeline" not in found.profile


@pytest.mark.anyio
async def test_the_tool_waits_for_the_profile_and_answers_alike_in_text_and_structure(
    judged: Path, guard: str, tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    shutil.copytree(judged, folder)
    async with connected(Host.open(folder), "ada", guard) as client:
        given = {"submission": "s001", "wait_seconds": 50}
        result = await client.call_tool("profile_candidate", given)
        answer = answer_of(result)
        assert answer["state"] == "done" and answer["bottleneck"] == "bandwidth-bound"
        assert len(text_of(result)) < 2000 and json.loads(text_of(result)) == answer
        refused = await client.call_tool("profile_candidate", {"submission": "s009"})
        assert "no submission 's009'" in refusal_of(refused)


@pytest.mark.anyio
async def test_an_agent_that_waits_for_its_profile_never_makes_the_same_call_twice(
    judged: Path, tmp_path: Path
) -> None:
    """Gemini CLI ends an agent at the fifth call in a row with the same arguments."""
    folder, silent = tmp_path / "c", tmp_path / "silent"
    shutil.copytree(judged, folder)
    silent.write_text("#!/bin/sh\nexec cat > /dev/null\n")
    silent.chmod(0o755)
    async with connected(Host.open(folder), "ada", str(silent)) as client:
        for turn in (1, 2):
            given = {"submission": "s001", "turn": turn, "wait_seconds": 0}
            view = answer_of(await client.call_tool("profile_candidate", given))
            assert view["state"] == "queued"
            assert view["next_step"].endswith(f"workload, and turn {turn + 1}.")
