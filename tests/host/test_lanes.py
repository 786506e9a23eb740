"""Several judgements at once: verdicts, stakes and duties with others in flight, and what may be lost."""

import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from forging import rows_of
from host_places import judge_all, make_campaign, opened, planned, scripted_guard
from in_process import InProcess

from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.duties import Duties
from kernelarc_mcp.host.election import LOCK, Seat
from kernelarc_mcp.host.fleet_client import FleetClient
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.judging import Executor
from kernelarc_mcp.host.telling import NOTABLE
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.report import read_report

PLANS = [
    *("gain:20", "broken", "wrong", "gain:0", "gain:-20", "instant", "die_once", "bully:20"),
    *("gain:8", "loses_builder"),
]


@pytest.fixture
def lanes(tmp_path: Path) -> Path:
    """Return a campaign of two agents who may have four submissions judged at a time."""
    make_campaign(tmp_path / "campaign", attempts=40, in_flight=4, r_draft=1000, canary_rate=0.0)
    return tmp_path / "campaign"


def fleet_of(folder: Path, devices: int) -> FleetClient:
    command = [scripted_guard(folder, "scripted_fleet"), "--devices", str(devices)]
    return FleetClient(command, folder / "fleet.log")


def bodies(folder: Path, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Return submission and body of all rows of a kind."""
    return [(row.submission, json.loads(row.body)) for row in rows_of(folder) if row.kind == kind]


def causes(folder: Path) -> list[tuple[str, str]]:
    return [(ticket, body["cause"]) for ticket, body in bodies(folder, "interrupted")]


async def until(condition: Callable[[], bool]) -> None:
    """Poll as a waiting client does."""
    with anyio.fail_after(120):
        while not condition():
            await anyio.sleep(0.02)


def dispatch(host: Host, executor: Executor, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Judge until idle while something else happens."""

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(Dispatcher(host, executor, retry_seconds=0.05).run_until_idle)
            await meanwhile()

    anyio.run(both)


def held(folder: Path, *requests: str) -> Callable[[], bool]:
    return lambda: all((folder / "cache" / f"held-{one}").exists() for one in requests)


def go(folder: Path, name: str = "go") -> None:
    (folder / "cache" / name).touch()


async def nothing() -> None:
    return


def test_the_same_candidates_get_the_same_verdicts_on_one_lane_and_on_four(tmp_path: Path) -> None:
    given: dict[int, list[tuple[str | None, str | None]]] = {}
    for devices in (1, 4):
        place = tmp_path / str(devices)
        place.mkdir()
        folder = place / "campaign"
        make_campaign(folder, attempts=40, in_flight=4, r_draft=1000, canary_rate=0.25)
        with opened(folder) as host:
            for number, plan in enumerate(PLANS):
                host.submit(("ada", "bob")[number % 2], source=planned(number, plan))
            if devices == 1:
                judge_all(folder, scripted_guard(place))
            else:
                host.submit("ada", source=planned(99, "die"))
                dispatch(host, fleet_of(place, devices), nothing)
            with host.campaign.journal.reading() as state:
                given[devices] = [(a.verdict, a.reason) for a in state.attempts.values()]
        assert verify(folder) == []
    assert given[4] == [*given[1], ("REVERT", "guard_lost")]
    leases = [body["result"]["lease"] for _, body in bodies(folder, "confirmed")]
    assert len({lease["unit"] for lease in leases if lease}) > 1, "several devices confirmed"


def test_a_record_that_moves_while_three_others_are_in_flight(lanes: Path, tmp_path: Path) -> None:
    with opened(lanes) as host:
        parts = ["confirming:20", "screening:30", "confirming:30", "screening:0"]
        for number, part in enumerate(parts):
            host.submit("ada", source=planned(number, f"held_{part}"))

        async def move() -> None:
            await until(held(lanes, "s001-confirm", "s002-screen", "s003-confirm", "s004-screen"))
            go(lanes, "go-s001-confirm")
            await until(lambda: host.submission("ada", "s001").state == "done")
            go(lanes)

        dispatch(host, fleet_of(tmp_path, 4), move)
        assert {("s002", "record_moved"), ("s003", "record_moved")} <= set(causes(lanes))
        moved = next(row.seq for row in rows_of(lanes) if row.kind == "settled")
        early = {
            row.submission for row in rows_of(lanes) if row.kind == "staked" and row.seq < moved
        }
        assert early == {"s001", "s003"}, "nothing is staked on a record that is none any more"
        views = [host.submission("ada", f"s00{number}") for number in range(1, 5)]
        assert [view.verdict for view in views] == ["KEEP", "KEEP", "KEEP", "ACCEPT"]
        assert "compared with seed, the record when its judgement began" in views[3].detail
        left = host.board("ada").wealth["ada"]
        assert left == pytest.approx(0.005, rel=1e-12), "a KEEP's stake comes back"
    assert verify(lanes) == []


def test_a_lost_device_costs_nobody_anything_and_the_last_one_is_waited_for(
    lanes: Path, tmp_path: Path
) -> None:
    fleet = fleet_of(tmp_path, 2)
    with opened(lanes) as host:
        host.submit("ada", source=planned(1, "held_screening:20"))
        host.submit("bob", source=planned(2, "held_screening:0"))

        async def lose() -> None:
            await until(held(lanes, "s001-screen", "s002-screen"))
            assert fleet.lanes == 2 and fleet.pid is not None
            assert "Fleet: 2 devices on 1 host, no build slots." in read_report(lanes).activity
            os.kill(fleet.pid, signal.SIGUSR1)
            await until(lambda: fleet.lanes == 1)
            assert causes(lanes) == []
            os.kill(fleet.pid, signal.SIGUSR1)
            await until(lambda: len(causes(lanes)) == 1)
            lost = causes(lanes)[0][0]
            agent = {"s001": "ada", "s002": "bob"}[lost]
            await until(lambda: "no devices" in host.submission(agent, lost).message)
            os.kill(fleet.pid, signal.SIGUSR2)
            go(lanes)

        dispatch(host, fleet, lose)
        ((_, cause),) = causes(lanes)
        assert cause == "device_lost"
        with host.campaign.journal.reading() as state:
            done = [(a.verdict, a.deaths) for a in state.attempts.values()]
    assert done == [("KEEP", 0), ("ACCEPT", 0)]
    assert read_report(lanes).activity == [], "nobody speaks of the fleet any more"
    assert verify(lanes) == []


def test_what_keeps_a_fleet_away_is_told_as_it_is_and_so_is_that_it_came(
    lanes: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = fleet_of(tmp_path, 1)
    good, fleet._command = (
        fleet._command,
        [
            *("sh", "-c"),
            'echo \'{"event":"hindrance","why":"the Ray head at x:1 does not answer"}\'; exit 3',
        ],
    )
    caplog.set_level(logging.INFO, "kernelarc_mcp")
    with opened(lanes) as host:
        ticket = host.submit("ada", source=planned(1, "gain:0")).ticket
        said = "Nothing is judged: the Ray head at x:1 does not answer."

        async def come() -> None:
            await until(lambda: said in host.submission("ada", ticket).message)
            assert said in read_report(lanes).activity
            fleet._command = good

        dispatch(host, fleet, come)
    told = [one.getMessage() for one in caplog.records if one.name.endswith(("lanes", "telling"))]
    assert told[:1] == ["nothing is judged: the Ray head at x:1 does not answer."]
    assert sorted(told[1:]) == [
        "Fleet: 1 device on 1 host, no build slots.",
        "that is over: submissions are judged",
    ]
    good_news = [one for one in caplog.records if one.getMessage() in told[1:]]
    assert all(NOTABLE.items() <= vars(one).items() for one in good_news)


def test_a_stand_in_that_is_killed_is_nobodys_fault_and_is_started_again(
    lanes: Path, tmp_path: Path
) -> None:
    fleet = fleet_of(tmp_path, 4)
    with opened(lanes) as host:
        for number in range(4):
            host.submit("ada", source=planned(number, "held_screening:0"))

        async def kill() -> None:
            for _ in range(3):  # as often as would be the end of a candidate that kills its guard
                await until(held(lanes, *(f"s00{number}-screen" for number in range(1, 5))))
                for mark in (lanes / "cache").glob("held-*"):
                    mark.unlink()
                count = len(causes(lanes))
                assert fleet.pid is not None
                os.kill(fleet.pid, signal.SIGKILL)
                await until(lambda before=count: len(causes(lanes)) == before + 4)  # type: ignore[misc]
            go(lanes)

        dispatch(host, fleet, kill)
        assert {cause for _, cause in causes(lanes)} == {"device_lost"}
        with host.campaign.journal.reading() as state:
            assert [(a.verdict, a.deaths) for a in state.attempts.values()] == [("ACCEPT", 0)] * 4
    assert verify(lanes) == []


def test_a_stop_with_four_in_flight_queues_all_again_and_another_executor_goes_on(
    lanes: Path, tmp_path: Path
) -> None:
    with opened(lanes) as host:
        tickets = [
            host.submit("ada", source=planned(number, f"held_{part}:0")).ticket
            for number, part in enumerate(["screening"] * 4)
        ]

        async def stop() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(Dispatcher(host, fleet_of(tmp_path, 4)).run)
                await until(held(lanes, *(f"{ticket}-screen" for ticket in tickets)))
                group.cancel_scope.cancel()

        anyio.run(stop)
        assert sorted(causes(lanes)) == [(ticket, "stopped") for ticket in tickets]
        assert [host.submission("ada", ticket).position for ticket in tickets] == [1, 2, 3, 4]
        assert verify(lanes) == []
        go(lanes)
        judge_all(lanes, scripted_guard(tmp_path))
        assert [host.submission("ada", ticket).verdict for ticket in tickets] == ["ACCEPT"] * 4
    assert verify(lanes) == []


def test_who_lost_the_seat_with_several_in_flight_writes_nothing_more(lanes: Path) -> None:
    executor = InProcess(3)
    executor.let("calibrate")
    with opened(lanes) as host:
        for number in range(3):
            host.submit("ada", source=planned(number, "gain:0"))

        async def lose() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(Dispatcher(host, executor).run)
                await executor.until("s001-screen", "s002-screen", "s003-screen")
                (lanes / LOCK).unlink()
                seat = Seat(lanes)
                seat.take()
                before = len(rows_of(lanes))
                await executor.until()
                assert len(rows_of(lanes)) == before
                seat.release()
                group.cancel_scope.cancel()

        anyio.run(lose)
        with host.campaign.journal.reading() as state:
            assert len(state.judging()) == 3, "whoever took over queues them"


def test_no_lane_is_idle_while_work_is_queued_and_a_calibration_is_alone(lanes: Path) -> None:
    executor = InProcess(3)
    with opened(lanes) as host:
        for number, agent in enumerate(["ada", "ada", "ada", "bob", "ada"]):
            host.submit(agent, source=planned(number, "gain:0"))

        async def watch() -> None:
            await executor.until("calibrate")
            executor.let("calibrate")
            await executor.until("s001-screen", "s004-screen", "s002-screen")
            assert host.submission("ada", "s003").position == 1
            assert host.submission("ada", "s005").position == 2
            host.submit("bob", source=planned(9, "gain:0"))
            assert host.submission("ada", "s003").position == 2, "it is bob's turn"
            asked_again(host)
            executor.let("s004-screen")
            await executor.until("s001-screen", "s002-screen")
            executor.let("s001-screen", "s002-screen")
            await executor.until("calibrate")
            executor.let("calibrate")
            await executor.until("s006-screen", "s003-screen", "s005-screen")
            executor.let()

        dispatch(host, executor, watch)
    assert verify(lanes) == []


def asked_again(host: Host) -> None:
    Duties(host.campaign, "m", str(host.folder / "cache")).ask_for_calibration(1, 8)


def test_a_canary_and_a_spread_of_a_record_that_moved_meanwhile_are_dropped_and_made_of_the_new_one(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder, attempts=40, in_flight=4, r_draft=1000, canary_rate=0.5)
    executor = InProcess(4)
    with opened(folder) as host:
        for number, plan in enumerate(["gain:0", "gain:0", "gain:20", "gain:30", "gain:40"]):
            host.submit("ada", source=planned(number, plan))

        async def move() -> None:
            executor.let("calibrate")
            await executor.until("s001-screen", "s002-screen", "s003-screen", "s004-screen")
            executor.let("s001-screen", "s002-screen")
            await executor.until("canary-1", "s003-screen", "s004-screen", "s005-screen")
            executor.let("s003-screen", "s004-screen")
            await executor.until("canary-1", "s003-confirm", "s004-confirm", "s005-screen")
            executor.let("s003-confirm")
            await executor.until("canary-1", "s004-confirm", "s005-screen")
            executor.let("canary-1")
            await executor.until("spread-s003", "s004-confirm", "s005-screen")
            assert bodies(folder, "canary") == []
            # It beat the seed, and then s003 as well, while that one's spread is still measured.
            executor.let("s004-confirm")
            await executor.until("spread-s003", "s004-screen", "s005-screen")
            executor.let("s004-screen", "s004-confirm")
            await executor.until("spread-s003", "s005-screen")
            executor.let("spread-s003")
            await executor.until("spread-s004", "s005-screen")
            assert bodies(folder, "spread_updated") == []
            executor.let()

        dispatch(host, executor, move)
        assert all(host.submission("ada", f"s00{n}").verdict == "KEEP" for n in (3, 4, 5))
    assert executor.ever.count("canary-1") == 2 and bodies(folder, "canary") != []
    assert verify(folder) == []


def test_what_wins_on_a_device_that_is_quarantined_meanwhile_is_judged_again_and_costs_nothing(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder, attempts=40, in_flight=4, r_draft=1000, canary_rate=1.0)
    executor = InProcess(4)
    with opened(folder) as host:
        host.submit("ada", source=planned(0, "leans:20"))

        async def quarantine() -> None:
            executor.let("calibrate", "s001-screen", "s001-confirm", "spread-s001")
            await until(lambda: host.submission("ada", "s001").state == "done")
            host.submit("ada", source=planned(1, "gain:30"))
            host.submit("ada", source=planned(2, "gain:25"))
            executor.let("s002-screen", *(f"canary-{number}" for number in range(1, 20)))
            await executor.until("s002-confirm", "s003-screen")
            for number in range(3, 8):
                host.submit("bob", source=planned(number, "gain:0"))
                executor.let(f"s00{number + 1}-screen")
            await until(lambda: host.board("ada").quarantined != "")
            executor.let("s002-confirm", "s003-screen")

        dispatch(host, executor, quarantine)
        again = [one for one in causes(folder) if one[1] == "device_quarantined"]
        assert sorted(ticket for ticket, _ in again) == ["s002", "s003"]
        assert host.board("ada").wealth["ada"] == pytest.approx(0.005, rel=1e-12)
        assert host.submission("ada", "s002").state == "queued"
    assert verify(folder) == []
