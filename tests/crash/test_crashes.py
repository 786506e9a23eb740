"""Thirty seeded kills of clients, dispatchers, guards and stand-ins of a fleet: nothing is lost, nothing is charged twice."""

from pathlib import Path

import pytest
from crash.deck import Deck
from crash.ledger_runs import LedgerRun
from crash.standin import stand_in
from crash.victims import context

SEED = 8
ACTIONS = ["client", "dispatcher", "client", "hand-over", "client", "outside", "client", "guard"]
STATEMENTS = {
    "submit": 12,
    "cancel": 11,
    "claim": 13,
    "screened": 12,
    "recover": 3,
    "confirmed": 12,
}
"""Some transactions and how many statements they have; benchmarks/crashes.py takes all there are."""


@pytest.mark.parametrize("lanes", [0, 3], ids=["one at a time", "three at once"])
def test_after_fifteen_kills_every_submission_is_charged_once_and_has_one_verdict(
    tmp_path: Path, lanes: int
) -> None:
    with stand_in(tmp_path, lanes) as guard:
        run = LedgerRun(tmp_path / "campaign", guard, SEED + 1, context(), lanes)
        actions = [ACTIONS[number % len(ACTIONS)] for number in range(15)]
        for row in run.kills(actions, Deck(STATEMENTS, (), SEED + lanes).point):
            assert row.wrong == [], row
        assert run.finish() == []
    assert len(run.rows) == 15
    assert {row.process for row in run.rows} == {
        "client",
        "dispatcher",
        "dispatcher, another waits",
        "guard",
    }
