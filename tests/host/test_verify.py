"""Verifying finds any row that was edited by hand, and names it."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from forging import edit, forge, row_of
from host_places import judge_all, make_campaign, opened, planned, scripted_guard

from kernelarc_guard.apart import ROUNDS
from kernelarc_guard.protocol import Lease, Result
from kernelarc_guard.ratios import anchor_due, anchored
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.ledger import FILE
from kernelarc_mcp.host.recheck import Held, overlaps, recheck_anchor
from kernelarc_mcp.host.verify import verify


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a campaign with every kind of verdict and a draft."""
    base = tmp_path_factory.mktemp("verify")
    folder = base / "campaign"
    make_campaign(folder, r_draft=2)
    host = Host.open(folder)
    for agent in ("ada", "bob"):
        host.register(agent)
    for number, plan in enumerate(["broken", "gain:20", "gain:0", "wrong"]):
        host.submit("ada", source=planned(number, plan))
    host.submit("bob", source=planned(0, "broken"))
    anyio.run(Dispatcher(host, scripted_guard(base)).run_until_idle)
    host.conclude("ada", "win", "It is faster", "By a fifth.", "s002")
    assert host.brief("ada").state.directive == "DRAFT"
    host.close()
    return folder


@pytest.fixture
def copy(judged: Path, tmp_path: Path) -> Iterator[Path]:
    """Return a copy of it that may be edited."""
    shutil.copytree(judged, tmp_path / "copy")
    yield tmp_path / "copy"


def test_an_untouched_campaign_verifies_and_is_not_written_to(judged: Path) -> None:
    before = (judged / FILE).read_bytes()
    assert verify(judged) == []
    assert (judged / FILE).read_bytes() == before


@pytest.mark.parametrize("kind", ["created", "submitted", "judging", "screened", "staked"])
def test_a_hand_edited_row_is_named(copy: Path, kind: str) -> None:
    row = row_of(copy, kind)
    edit(copy, "UPDATE event SET body = body || ' ' WHERE seq = ?", row.seq)
    assert f"event row {row.seq}: its content does not have its hash" in verify(copy)


def test_every_column_of_a_row_is_sealed(copy: Path) -> None:
    row = row_of(copy, "settled")
    for column in ("at", "agent", "submission"):
        edit(copy, f"UPDATE event SET {column} = {column} || 'x' WHERE seq = ?", row.seq)
        assert any(f"row {row.seq}" in finding for finding in verify(copy))
        edit(
            copy,
            f"UPDATE event SET {column} = substr({column}, 1, length({column}) - 1) WHERE seq = ?",
            row.seq,
        )
    assert verify(copy) == []


def test_a_deleted_row_is_named(copy: Path) -> None:
    edit(copy, "DELETE FROM event WHERE seq = 5")
    assert any("row 5 is missing" in finding for finding in verify(copy))


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE agent SET r = r + 1 WHERE name = 'ada'", "agent row ada: r is"),
        ("UPDATE agent SET used = 0 WHERE name = 'ada'", "agent row ada: used is 0"),
        ("UPDATE agent SET branch = 'seed' WHERE name = 'ada'", "agent row ada: branch is"),
        ("UPDATE wealth SET amount = 1 WHERE share = 'bob'", "wealth row bob: amount is"),
        ("UPDATE record SET speedup = 9 WHERE position = 1", "record row 1: speedup is"),
        ("UPDATE submission SET verdict = 'KEEP' WHERE ticket = 's004'", "submission row s004"),
        ("DELETE FROM submission WHERE ticket = 's001'", "submission row s001 is missing"),
        ("UPDATE blob SET content = x'00' WHERE rowid = 1", "its bytes do not have its digest"),
        ("DELETE FROM blob WHERE rowid = 1", "the bytes of kernel.py"),
    ],
)
def test_a_counter_edited_in_a_derived_table_is_named(
    copy: Path, statement: str, named: str
) -> None:
    edit(copy, statement)
    assert any(named in finding for finding in verify(copy))


def test_a_verdict_that_its_pairs_do_not_give_is_found_though_all_hashes_fit(copy: Path) -> None:
    row = row_of(copy, "confirmed")
    pairs = json.loads(row.body)["result"]["pairs"]
    for pair in pairs:
        for block in pair["blocks"]:
            block["candidate"] = block["record"]
    forge(copy, row.seq, {"result": {"pairs": pairs}})
    findings = verify(copy)
    assert not any("hash" in finding for finding in findings)
    assert (
        f"event row {row.seq}: its pairs decide ACCEPT gain_not_confirmed, not KEEP confirmed"
        in (findings)
    )


def test_a_keep_has_all_its_rounds_or_one_that_settles_the_rest(copy: Path) -> None:
    row = row_of(copy, "confirmed")
    rounds = json.loads(row.body)["result"]["apart"]
    forge(copy, row.seq, {"result": {"apart": rounds[:1]}})
    assert verify(copy) == []
    for block in rounds[0]["blocks"]:
        block["candidate"] = block["record"]
    for kept in (0, 1):
        forge(copy, row.seq, {"result": {"apart": rounds[:kept]}})
        said = f"event row {row.seq}: a KEEP takes {ROUNDS} rounds with the arms in separate"
        assert any(finding.startswith(said) for finding in verify(copy))


def test_a_confirmation_that_was_not_beside_the_seed_where_that_is_due_is_named(copy: Path) -> None:
    row = row_of(copy, "confirmed")
    result = json.loads(row.body)["result"]
    assert recheck_anchor(Result.model_validate(result), record_is_anchor=True) == []
    assert "not measured beside the seed" in str(
        recheck_anchor(Result.model_validate(result), record_is_anchor=False)
    )

    def findings(has: Callable[[int], bool]) -> list[str]:
        pairs = result["pairs"]
        for place, pair in enumerate(pairs):
            for block in pair["blocks"]:
                block["anchor"] = block["record"] if has(place) else []
        triples = [
            [(b["record"], b["candidate"], b["anchor"]) for b in pair["blocks"]]
            for place, pair in enumerate(pairs)
            if has(place)
        ]
        weights = [1.0] * len(pairs[0]["blocks"][0]["record"])
        beside = anchored(triples, weights).model_dump(mode="json")
        forge(copy, row.seq, {"result": {"pairs": pairs, "anchored": beside}})
        return [one for one in verify(copy) if one.startswith(f"event row {row.seq}: its pairs")]

    assert findings(anchor_due) == [], "as some campaigns had it"
    assert findings(lambda place: True) == []
    said = f"event row {row.seq}: its pairs have no value: pair 5 of 7 lacks the anchor's times"
    assert findings(lambda place: anchor_due(place) and place != 4) == [said]


def test_a_decision_told_in_other_words_verifies_and_another_number_is_named(copy: Path) -> None:
    row = row_of(copy, "confirmed")
    decision = json.loads(row.body)["result"]["decision"]
    words = "+18.232 % over 7 confirming pairs: as an earlier version put it."
    forge(copy, row.seq, {"result": {"decision": {"detail": words}}})
    assert verify(copy) == []
    forge(copy, row.seq, {"result": {"decision": {"goal": 0.5}}})
    said = f"its pairs and the stake then give goal {decision['goal']!r}, where 0.5 is recorded"
    assert f"event row {row.seq}: {said}" in verify(copy)


@pytest.mark.parametrize(
    ("kind", "submission", "change", "says"),
    [
        ("settled", "s004", {"reason": "tampering"}, "the rows give REVERT wrong_result"),
        ("settled", "s002", {"speedup": 3.0}, "the rows give KEEP confirmed"),
        ("settled", "s005", {"duplicate_of": "s003"}, "the rows give REJECT duplicate"),
        ("staked", "s002", {"amount": 1e-9}, "the stake was"),
        ("registered", "", {"lens": "low-precision"}, "the least used lens was"),
        ("drafting", "", {"lens": "low-precision"}, "the least used other lens was"),
        ("submitted", "s002", {"number": 7}, "attempt number 2 was next"),
        ("submitted", "s002", {"key": "0" * 64}, "its sources give another key"),
        ("judging", "s002", {"against": "s001"}, "the record is seed"),
        ("spread_updated", "", {"sd_confirm": 0.01}, "its pairs give"),
        ("spread_updated", "", {"record": "seed"}, "the record is"),
    ],
)
def test_a_decision_forged_with_all_hashes_is_found(
    copy: Path, kind: str, submission: str, change: dict[str, object], says: str
) -> None:
    row = row_of(copy, kind, submission)
    forge(copy, row.seq, change)
    findings = verify(copy)
    assert any(f"event row {row.seq}" in found and says in found for found in findings), findings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pairs", 99),
        ("blocks_screen", 3),
        ("blocks_confirm", 2),
        ("sd_screen", 0.001),
        ("sd_confirm", 0.001),
        ("delta", 0.0),
        ("mean", 0.5),
        ("values", [0.1, 0.2]),
        ("shared_bias", 0.001),
        ("biased", True),
        ("resolution", 0.01),
        ("problem", "another"),
        ("device", "cuda:0"),
        ("spread_pairs", 7),
        ("note", "All is well."),
    ],
)
def test_every_number_of_a_calibration_that_its_pairs_do_not_give_is_named(
    copy: Path, field: str, value: object
) -> None:
    row = row_of(copy, "calibrated")
    forge(copy, row.seq, {"result": {"calibration": {field: value}}})
    said = f"event row {row.seq}: its pairs give another {field}: "
    assert any(found.startswith(said) for found in verify(copy)), verify(copy)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pairs": []}, "its pairs give no calibration: 0 pairs"),
        ({"calibration": {"nurseries": [1]}}, "its pairs give no calibration"),
        ({"calibration": {"pair_seconds": None}}, "a pair and a block take time"),
        ({"calibration": None}, "holds no calibration"),
    ],
)
def test_a_calibration_that_cannot_be_computed_again_is_named(
    copy: Path, change: dict[str, object], says: str
) -> None:
    row = row_of(copy, "calibrated")
    forge(copy, row.seq, {"result": change})
    assert any(f"row {row.seq}" in found and says in found for found in verify(copy))


def test_windows_below_the_physical_limit_are_held_against_the_recorded_rulers(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder)
    with opened(folder) as host:
        ticket = host.submit("ada", source=planned(1, "instant")).ticket
        host.submit("ada", source=planned(2, "gain:0"))
        judge_all(folder, scripted_guard(tmp_path))
        view = host.submission("ada", ticket)
        assert (view.verdict, view.reason) == ("REVERT", "below_physical_limit")
    assert verify(folder) == []
    instant, right = (row_of(folder, "screened", one) for one in ("s001", "s002"))
    pairs = {one.seq: json.loads(one.body)["result"]["pairs"] for one in (instant, right)}
    shutil.copytree(folder, tmp_path / "honest")
    forge(tmp_path / "honest", instant.seq, {"result": {"pairs": pairs[right.seq][:1]}})
    said = f"event row {instant.seq}: its last pair alone has to be below"
    assert any(found.startswith(said) for found in verify(tmp_path / "honest"))
    shutil.copytree(folder, tmp_path / "hidden")
    forge(tmp_path / "hidden", right.seq, {"result": {"pairs": pairs[instant.seq]}})
    said = f"event row {right.seq}: pair 1 is below the device's physical limit"
    assert any(found.startswith(said) for found in verify(tmp_path / "hidden"))
    shutil.copytree(folder, tmp_path / "blind")
    forge(tmp_path / "blind", right.seq, {"result": {"calibration": {"rulers": None}}})
    said = f"event row {right.seq}: its pairs were not held against rulers"
    assert any(found.startswith(said) for found in verify(tmp_path / "blind"))


def test_a_keep_that_was_turned_into_fixed_inputs_is_found(copy: Path) -> None:
    row = row_of(copy, "confirmed")
    forge(copy, row.seq, {"result": {"verdict": "ACCEPT", "reason": "fixed_inputs"}})
    said = f"event row {row.seq}: it says fixed_inputs, but inputs of the problem can be redrawn"
    assert said in verify(copy)


def test_a_device_is_known_by_its_machine_and_its_lock_whatever_it_is_called() -> None:
    def held(seq: int, device: str, unit: str, machine: str = "m") -> Held:
        lease = Lease(device=device, from_ns=0, to_ns=10, machine=machine, unit=unit)
        return Held(seq, "the dispatcher's", lease)

    one, other, elsewhere = held(1, "cuda:0", "A"), held(2, "cuda:0", "B"), held(3, "cpu", "A", "n")
    assert overlaps([one, other, elsewhere]) == []
    again = held(4, "cuda:1", "A")
    assert overlaps([one, other, elsewhere, again]) == [(one, again)]


def test_leases_of_one_device_on_one_machine_must_not_overlap() -> None:
    def held(seq: int, machine: str, device: str, begin: int, end: int) -> Held:
        return Held(seq, machine, Lease(device=device, from_ns=begin, to_ns=end))

    apart = [held(1, "m", "cpu", 0, 5), held(2, "m", "cpu", 5, 9), held(3, "n", "cpu", 3, 4)]
    assert overlaps([*apart, held(4, "m", "cuda:0", 1, 8)]) == []
    crossing = held(5, "m", "cpu", 8, 20)
    assert [(a.seq, b.seq) for a, b in overlaps([*apart, crossing])] == [(2, 5)]
