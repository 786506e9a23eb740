"""Records that drift or fail, canaries and quarantine, with a scripted guard and real rows."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from host_places import judge_all, make_campaign, opened, planned

from kernelarc_guard.reasons import REASONS, check_outcome
from kernelarc_mcp.host.dispatcher import Dispatcher, machine_id
from kernelarc_mcp.host.duties import CANARY_PAIRS, Duties
from kernelarc_mcp.host.events import Canary, read
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.replay import Inconsistent, replay
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.host.watching import planted_by, spread_of


def bodies(host: Host, kind: str) -> list[dict[str, object]]:
    rows = host.campaign.journal.ledger.rows_after(0)
    return [json.loads(row.body) for row in rows if row.kind == kind]


def test_a_record_is_published_with_the_ratio_measured_beside_the_seed(
    folder: Path, guard: str
) -> None:
    with opened(folder) as host:
        for number, gain in enumerate((20, 10)):
            host.submit("ada", source=planned(number, f"gain:{gain}"))
        judge_all(folder, guard)
        record = host.board("ada").record
        # The scripted record is 20 % faster than the anchor, the candidate 10 % more.
        assert record.speedup == pytest.approx(1.3499, abs=0.001)
        assert record.gain == pytest.approx(1.1052, abs=0.001)
        assert record.over_seed is not None
        assert record.over_seed.lower <= record.speedup <= record.over_seed.upper
    assert verify(folder) == []


def test_a_record_that_stays_slower_than_published_is_withdrawn_for_the_one_before(
    folder: Path, guard: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(folder) as host:
        bomb = host.submit("ada", source=planned(1, "fades:20")).ticket
        later = host.submit("bob", source=planned(2, "gain:20")).ticket
        judge_all(folder, guard)
        assert [one["reason"] for one in bodies(host, "suspected")] == ["record_drifted"]
        assert [one["withdrawn"] for one in bodies(host, "remeasured")] == ["record_drifted"]
        causes = [one["cause"] for one in bodies(host, "interrupted")]
        assert causes == ["record_drifted"]
        seen = str(bodies(host, "suspected")[0]["detail"])
        suspect, gone = (one.getMessage() for one in caplog.records)
        again = f"the record {bomb} is suspect (record_drifted) and is measured again: "
        assert suspect == f"{again}{seen}"
        withdrawn = f"the record {bomb} is withdrawn (record_drifted): {seen}"
        assert gone == f"{withdrawn} The record is seed now."
        # Both agents are told: who won once more, and whose win it was.
        told = host.submission("bob", later).detail
        assert "x the seed's speed over" in told and "the record's speed" not in told
        won = f"it had won against {bomb}, which was withdrawn (record_drifted): {seen}"
        assert told.endswith(f" It was judged again, against the seed: {won}")
        settled = bodies(host, "settled")[-1]
        assert "x the record's speed over" in str(settled["detail"]), "the ledger keeps its words"
        own = host.submission("ada", bomb).next_step
        lead = "It was the record and is withdrawn (record_drifted), so it is no win: "
        assert own.startswith(f"{lead}{seen} ") and "write a win" not in own
        board = host.board("bob")
        assert board.record.submission == later
        assert {row.submission: row.withdrawn for row in board.rows}[bomb] == "record_drifted"
        assert host.submission("bob", later).state_after.attempts_used == 1
        ada = next(row for row in board.agents if row.agent == "ada")
        assert ada.best is None
        assert host.brief("ada").state.branch == "seed"
        with host.campaign.journal.reading() as state:
            assert state.wealth == pytest.approx({"ada": 0.005, "bob": 0.005})
    assert verify(folder) == []


def test_an_agent_whose_record_is_withdrawn_goes_back_to_its_own_work(
    folder: Path, guard: str
) -> None:
    with opened(folder) as host:
        own = host.submit("ada", source=planned(1, "gain:0")).ticket
        host.submit("bob", source=planned(2, "gain:20"))
        judge_all(folder, guard)
        host.submit("ada", source=planned(3, "spoils:20"))
        judge_all(folder, guard)
        host.submit("bob", source=planned(4, "gain:20"))
        judge_all(folder, guard)
        assert [one["withdrawn"] for one in bodies(host, "remeasured")] == ["record_failed"]
        assert host.brief("ada").state.branch == own
    assert verify(folder) == []


def test_a_record_that_measures_as_published_again_stands(
    folder: Path, guard: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kernelarc_mcp.host.duty_work")
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "dips:20"))
        later = host.submit("bob", source=planned(2, "gain:20")).ticket
        judge_all(folder, guard)
        assert [one["withdrawn"] for one in bodies(host, "remeasured")] == ["", ""]
        said = [one.getMessage() for one in caplog.records if "stands" in one.getMessage()]
        assert said == ["the record s001 stands: nothing is amiss"] * 2
        assert "judged again" not in host.submission("bob", later).detail
        # Compared again once, and then the KEEP counts.
        assert len(bodies(host, "interrupted")) == 1
        assert host.board("bob").record.submission == later
    assert verify(folder) == []


def test_a_record_that_fails_alone_too_is_withdrawn_and_its_agent_restored(
    folder: Path, guard: str
) -> None:
    with opened(folder) as host:
        spoiler = host.submit("ada", source=planned(1, "spoils:20")).ticket
        later = host.submit("bob", source=planned(2, "gain:20")).ticket
        judge_all(folder, guard)
        assert [one["withdrawn"] for one in bodies(host, "remeasured")] == ["record_failed"]
        board = host.board("bob")
        assert board.record.submission == later
        assert board.rows[-1].submission == spoiler
        state = host.brief("ada").state
        assert (state.branch, state.directive) == ("seed", "RESTORE")
        own = host.submission("ada", spoiler).next_step
        assert "is withdrawn (record_failed)" in own and "an element is off" in own
    assert verify(folder) == []


def test_a_candidate_that_makes_the_record_fail_does_not_remove_it(
    folder: Path, guard: str
) -> None:
    with opened(folder) as host:
        record = host.submit("ada", source=planned(1, "trips:20")).ticket
        culprit = host.submit("bob", source=planned(2, "gain:20")).ticket
        judge_all(folder, guard)
        assert host.submission("bob", culprit).reason == "guard_lost"
        assert host.board("bob").record.submission == record
        assert {one["withdrawn"] for one in bodies(host, "remeasured")} == {""}
    assert verify(folder) == []


def test_a_gain_that_only_exists_beside_the_record_is_not_confirmed(
    folder: Path, guard: str
) -> None:
    with opened(folder) as host:
        ticket = host.submit("ada", source=planned(1, "bully:20")).ticket
        judge_all(folder, guard)
        view = host.submission("ada", ticket)
        assert (view.verdict, view.reason) == ("ACCEPT", "gain_not_confirmed")
        assert "separate lifetimes" in view.detail
        assert host.board("ada").record.submission == "seed"
        assert view.numbers is not None and view.numbers.staked
        assert view.numbers.wealth_left < 0.005
    assert verify(folder) == []


def test_every_verdict_comes_with_its_numbers(folder: Path, guard: str) -> None:
    with opened(folder) as host:
        tickets = [
            host.submit("ada", source=planned(n, plan)).ticket
            for n, plan in enumerate(("gain:20", "gain:0", "broken"))
        ]
        judge_all(folder, guard)
        kept, close, broken = (host.submission("ada", one).numbers for one in tickets)
    assert kept is not None and close is not None and broken is None
    assert kept.lower is not None and kept.lower < kept.speedup
    assert kept.confirm_pairs >= 7 and kept.screen_pairs >= 1 and kept.blocks >= kept.pairs
    assert kept.over_seed is not None and kept.staked
    assert (close.confirm_pairs, close.staked, close.over_seed) == (0, False, None)
    for one in (kept, close):
        assert one.delta_percent == 0.3 and one.band_percent == 2.0
        assert 0 < one.stake < one.wealth_left <= 0.005
        assert one.goal_percent >= one.resolution_percent > 0


def test_canaries_come_at_their_rate_and_cost_no_attempt(tmp_path: Path, guard: str) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder, canary_rate=0.5)
    with opened(folder) as host:
        for number in range(5):
            host.submit("ada", source=planned(number, "gain:0"))
        judge_all(folder, guard)
        seen = host.board("ada").canaries
        assert (seen.same, seen.same_hits, seen.delayed, seen.delayed_seen) == (1, 0, 1, 1)
        assert seen.same_bounds[0] == 0 and seen.delayed_bounds[1] == 1
        same, delayed = bodies(host, "canary")
        with host.campaign.journal.reading() as state:
            planned_with = state.calibration
        assert planned_with is not None and planned_with.spread_pairs == CANARY_PAIRS
        assert same["spread"] == spread_of(planned_with).model_dump(mode="json")
        assert delayed["spread"] is None
        assert host.brief("ada").state.attempts_used == 5
    assert verify(folder) == []


def test_a_canary_that_gives_another_spread_than_its_pairs_is_refused(
    tmp_path: Path, guard: str
) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder, canary_rate=1.0)
    with opened(folder) as host:
        host.submit("ada", source=planned(0, "gain:0"))
        judge_all(folder, guard)
        events = [read(row) for row in host.campaign.journal.ledger.rows_after(0)]
    (canary,) = (event for event in events if isinstance(event.body, Canary))
    assert isinstance(canary.body, Canary) and canary.body.spread is not None
    told = canary.body.spread.model_copy(update={"sd_confirm": canary.body.spread.sd_confirm / 2})
    body = canary.body.model_copy(update={"spread": told})
    told_events = [replace(event, body=body) if event is canary else event for event in events]
    assert replay(events).calibration is not None
    with pytest.raises(Inconsistent, match="its pairs give the spread"):
        replay(told_events)


def test_a_canarys_delay_is_what_the_guard_says_it_planted(tmp_path: Path, guard: str) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder, canary_rate=1.0)
    with opened(folder) as host:
        for number in range(2):
            host.submit("ada", source=planned(number, "gain:0"))
        judge_all(folder, guard)
        events = [read(row) for row in host.campaign.journal.ledger.rows_after(0)]
    canaries = [event for event in events if isinstance(event.body, Canary)]
    last, body = canaries[-1], canaries[-1].body
    assert isinstance(body, Canary) and body.sort == "delayed" and body.result is not None
    # As a guard says it on a device that can plant no less.
    result = body.result.model_copy(update={"planted": 2 * body.planted})
    told = body.model_copy(update={"result": result})
    more = told.model_copy(update={"planted": planted_by(body.planted, result)})
    assert more.planted == 2 * body.planted
    replayed = replay([replace(one, body=more) if one is last else one for one in events])
    assert replayed.canaries[-1].planted == more.planted
    with pytest.raises(Inconsistent, match="were planted"):
        replay([replace(one, body=told) if one is last else one for one in events])


def test_failed_canaries_quarantine_the_device_until_it_is_calibrated_again(
    tmp_path: Path, guard: str
) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder, canary_rate=1.0)
    with opened(folder) as host:
        host.submit("ada", source=planned(0, "leans:20"))
        waiting = [host.submit("ada", source=planned(n, "gain:0")).ticket for n in range(1, 5)]
        judge_all(folder, guard)
        (quarantined,) = bodies(host, "quarantined")
        assert "comparisons of the record with itself" in str(quarantined["detail"])
        assert "itself" in host.board("ada").quarantined
        last = host.submission("ada", waiting[-1])
        assert last.state == "queued"
        assert "device_quarantined" in last.message
        assert verify(folder) == []

        duties = Duties(host.campaign, machine_id(), str(folder / "cache"))
        duties.ask_for_calibration(3, 2)
        anyio.run(Dispatcher(host, guard).run_calibration)
        board = host.board("ada")
        assert board.quarantined == "" and board.canaries.same == 0
        assert board.calibration is not None and board.calibration.nurseries == 3
        judge_all(folder, guard)
        assert host.submission("ada", waiting[-1]).state == "done"
        assert "device_quarantined" not in host.submission("ada", waiting[-1]).message
    assert verify(folder) == []


def test_a_calibration_that_always_fails_is_dropped_and_judging_goes_on(
    folder: Path, guard: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(folder) as host:
        judge_all(folder, guard)
        duties = Duties(host.campaign, machine_id(), str(folder / "cache"))
        # The scripted guard dies on so many pairs.
        duties.ask_for_calibration(2, 999)
        ticket = host.submit("ada", source=planned(1, "gain:0")).ticket
        anyio.run(Dispatcher(host, guard, retry_seconds=0.01).run_until_idle)
        (dropped,) = bodies(host, "calibration_dropped")
        assert "ended" in str(dropped["detail"])
        said = caplog.records[-1].getMessage()
        assert said.startswith("a calibration failed 3 times and is given up, the last one stays: ")
        assert host.submission("ada", ticket).verdict == "ACCEPT"
    assert verify(folder) == []


def test_reasons_of_records_and_devices_are_no_verdict_on_a_submission() -> None:
    for code in ("record_drifted", "record_failed", "device_quarantined"):
        assert REASONS[code].says
        with pytest.raises(ValueError, match="never comes with"):
            check_outcome("REVERT", code, "timing")
