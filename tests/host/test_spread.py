"""After a KEEP the campaign's spread is the new record's own, and `verify` computes it again."""

import json
from pathlib import Path

import anyio
import pytest
from host_places import judge_all, opened, planned
from stories import Story

from kernelarc_guard.decide import Calibration, block_values, respread
from kernelarc_guard.protocol import Result
from kernelarc_mcp.host.dispatcher import Dispatcher, machine_id
from kernelarc_mcp.host.duties import SPREAD_PAIRS, Duties
from kernelarc_mcp.host.events import SpreadUpdated
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.replay import Inconsistent
from kernelarc_mcp.host.verify import verify

SPREADS = {"sd_screen", "sd_confirm", "resolution", "spread_pairs"}


def rows(host: Host, kind: str) -> list[dict[str, object]]:
    found = host.campaign.journal.ledger.rows_after(0)
    return [json.loads(row.body) for row in found if row.kind == kind]


def calibration_of(host: Host) -> Calibration:
    with host.campaign.journal.reading() as state:
        assert state.calibration is not None
        return state.calibration


def test_a_keep_updates_the_spread_and_nothing_else(folder: Path, guard: str) -> None:
    with opened(folder) as host:
        judge_all(folder, guard)
        before = calibration_of(host)
        host.submit("ada", source=planned(1, "gain:20"))
        judge_all(folder, guard)
        after = calibration_of(host)
        (updated,) = rows(host, "spread_updated")
        result = Result.model_validate(updated["result"])
        weights = host.problem.weights()
        pairs = [
            block_values([(b.record, b.candidate) for b in pair.blocks], weights)
            for pair in result.pairs
        ]
        assert after == respread(before, pairs, host.settings.parameters)
        assert after.model_dump(exclude=SPREADS) == before.model_dump(exclude=SPREADS)
        assert after.spread_pairs == len(result.pairs) == SPREAD_PAIRS
        assert updated["sd_confirm"] == after.sd_confirm
        view = host.board("ada").calibration
        assert view is not None and view.spread_pairs == len(result.pairs)
        assert (view.sd_percent, view.mean_percent) == (after.sd_confirm, before.mean)
    assert verify(folder) == []


def test_only_a_keep_updates_it_and_the_next_judgement_uses_it(folder: Path, guard: str) -> None:
    with opened(folder) as host:
        for number, plan in enumerate(("gain:0", "wrong", "bully:20", "gain:20", "gain:0")):
            host.submit("ada", source=planned(number, plan))
        judge_all(folder, guard)
        kinds = [row.kind for row in host.campaign.journal.ledger.rows_after(0)]
        assert kinds[kinds.index("spread_updated") - 1] == "settled"
        assert len(rows(host, "spread_updated")) == 1
        screens = [Result.model_validate(row["result"]) for row in rows(host, "screened")]
        used = [one.calibration.spread_pairs for one in screens if one.calibration is not None]
        # Refused before it was measured, the second has none.
        assert used == [None, None, None, calibration_of(host).spread_pairs]
    assert verify(folder) == []


def test_a_calibration_by_hand_replaces_the_spread_of_a_keep(folder: Path, guard: str) -> None:
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "gain:20"))
        judge_all(folder, guard)
        Duties(host.campaign, machine_id(), str(folder / "cache")).ask_for_calibration(3, 2)
        anyio.run(Dispatcher(host, guard).run_calibration)
        assert calibration_of(host).spread_pairs is None
    assert verify(folder) == []


def test_without_a_keep_the_row_is_refused() -> None:
    story = Story()
    row = SpreadUpdated(
        record="seed",
        result=None,
        sd_screen=0.1,
        sd_confirm=0.2,
        resolution=1.0,
        machine="here",
        detail="",
    )
    with pytest.raises(Inconsistent, match="the record has not moved"):
        story.add(row)


def test_a_campaign_that_was_never_calibrated_has_no_spread_to_update() -> None:
    story = Story()
    ticket = story.submit("ada")
    story.claim()
    story.judge(ticket, "promising", "kept")
    assert story.state.spread_due == "" and story.state.record.ticket == ticket
