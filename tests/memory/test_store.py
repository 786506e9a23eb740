"""One memory file on disk: what is stored, merged, refused and shown."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelarc_memory import (
    CapExceeded,
    EvidenceMismatch,
    Malformed,
    MemoryStore,
    NewConclusion,
    Retention,
)

NOW = "2026-01-01T13:00:00+00:00"
Make = Callable[..., NewConclusion]


def shown(store: MemoryStore, **options: object) -> list[str]:
    arguments: dict[str, object] = {"retention": Retention.unbounded(), "limit": 100, "now": NOW}
    page = store.read("rmsnorm", "cpu", **(arguments | options))  # type: ignore[arg-type]
    return [item.summary for item in page.items]


def test_a_conclusion_comes_back_as_written_with_the_measured_facts(
    store: MemoryStore, conclusion: Make
) -> None:
    new = conclusion()
    written = store.write(new)
    (item,) = store.read("rmsnorm", "cpu", Retention(), 16, now=NOW).items
    assert (item.id, item.seen, written.merged) == (written.id, 1, False)
    assert (item.summary, item.lesson, item.kind) == (new.summary, new.lesson, "win")
    proof = item.latest
    assert (proof.evidence, proof.agent, proof.lens) == ("s1", "ada", "hardware-native")
    assert (proof.verdict, proof.reason, proof.speedup) == ("KEEP", "confirmed", 1.5)
    assert (proof.campaign, proof.at, proof.position) == ("first", new.at, 1)


def test_the_same_words_merge_count_up_and_keep_both_proofs(
    store: MemoryStore, conclusion: Make
) -> None:
    first = store.write(conclusion())
    again = conclusion(
        summary="  Eight ACCUMULATORS hide the\nlatency of the add ",
        evidence="s9",
        agent="bob",
        verdict="ACCEPT",
        reason="close_to_record",
        at="2026-01-01T12:30:00+00:00",
    )
    second = store.write(again)
    assert (second.id, second.merged, second.seen) == (first.id, True, 2)
    page = store.read("rmsnorm", "cpu", Retention(), 16, now=NOW)
    assert page.stored == 1
    assert [proof.evidence for proof in page.items[0].proofs] == ["s1", "s9"]
    assert page.items[0].latest.agent == "bob"


def test_the_same_submission_cited_twice_counts_but_is_one_proof(
    store: MemoryStore, conclusion: Make
) -> None:
    store.write(conclusion())
    assert store.write(conclusion()).seen == 2
    (item,) = store.read("rmsnorm", "cpu", Retention(), 16, now=NOW).items
    assert len(item.proofs) == 1


@pytest.mark.parametrize(
    "difference",
    [
        {"kind": "trap"},
        {"operator_class": "softmax"},
        {"device": "NVIDIA H200"},
        {"lesson": "Another reason altogether."},
    ],
)
def test_another_kind_class_device_or_lesson_is_another_conclusion(
    store: MemoryStore, conclusion: Make, difference: dict[str, object]
) -> None:
    first = store.write(conclusion())
    second = store.write(conclusion(**difference))
    assert not second.merged
    assert second.id != first.id


@pytest.mark.parametrize(("field", "cap"), [("summary", 160), ("lesson", 1200)])
def test_a_text_over_its_cap_is_refused_by_name_and_nothing_is_stored(
    store: MemoryStore, conclusion: Make, field: str, cap: int
) -> None:
    with pytest.raises(CapExceeded, match=rf"{field} has {cap + 1} characters, the cap is {cap}"):
        store.write(conclusion(**{field: "é" * (cap + 1)}))
    assert shown(store) == []
    store.write(conclusion(**{field: "é" * cap}))
    assert len(shown(store)) == 1


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("win", "REJECT"), ("win", "REVERT"), ("trap", "KEEP"), ("trap", "ACCEPT")],
)
def test_a_verdict_that_cannot_prove_the_kind_is_refused(
    store: MemoryStore, conclusion: Make, kind: str, verdict: str
) -> None:
    with pytest.raises(EvidenceMismatch, match=verdict):
        store.write(conclusion(kind=kind, verdict=verdict))
    assert shown(store) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"summary": " \n"},
        {"lesson": ""},
        {"summary": "half a pair \ud800"},
        {"evidence": ""},
        {"speedup": float("nan")},
        {"speedup": 0.0},
        {"at": "yesterday"},
        {"at": "2026-01-01T12:00:00"},
        {"kind": "hint"},
        {"position": -1},
    ],
)
def test_an_impossible_field_is_refused_and_nothing_is_stored(
    store: MemoryStore, conclusion: Make, wrong: dict[str, object]
) -> None:
    with pytest.raises(Malformed):
        store.write(conclusion(**wrong))
    assert shown(store) == []


def test_a_bounded_view_shows_the_newest_and_keeps_the_rest(
    store: MemoryStore, conclusion: Make
) -> None:
    for minute in range(20):
        at = f"2026-01-01T12:{minute:02}:00+00:00"
        store.write(conclusion(summary=f"win {minute}", evidence=f"s{minute}", at=at))
    page = store.read("rmsnorm", "cpu", Retention.bounded(4), 100, now=NOW)
    assert [item.summary for item in page.items] == ["win 19", "win 18", "win 17", "win 16"]
    assert page.stored == 20
    assert len(shown(store)) == 20


def test_a_horizon_hides_what_is_old_and_a_new_proof_brings_it_back(
    store: MemoryStore, conclusion: Make
) -> None:
    store.write(conclusion(summary="old", at="2026-01-01T09:00:00+00:00"))
    hour = Retention.horizon(hours=1)
    assert shown(store, retention=hour) == []
    store.write(conclusion(summary="old", evidence="s2", at="2026-01-01T12:30:00+00:00"))
    assert shown(store, retention=hour) == ["old"]


def test_a_horizon_in_submissions_counts_the_readers_campaign_only(
    store: MemoryStore, conclusion: Make
) -> None:
    store.write(conclusion(summary="mine, early", position=3))
    store.write(conclusion(summary="mine, late", position=11, evidence="s2"))
    store.write(conclusion(summary="theirs", position=1, campaign="second", evidence="t1"))
    lately = Retention.horizon(submissions=10)
    seen = shown(store, retention=lately, campaign="first", position=13)
    assert set(seen) == {"mine, late", "theirs"}


def test_one_kind_can_be_asked_for(store: MemoryStore, conclusion: Make) -> None:
    store.write(conclusion(summary="a win"))
    store.write(conclusion(kind="trap", summary="a trap"))
    assert shown(store, kind="trap") == ["a trap"]
    with pytest.raises(ValueError, match="kind"):
        shown(store, kind="hint")


def test_two_campaigns_with_the_same_path_share_what_fits_their_key(
    tmp_path: Path, conclusion: Make
) -> None:
    MemoryStore(tmp_path / "shared.db").write(conclusion())
    second = MemoryStore(tmp_path / "shared.db")
    assert len(second.read("rmsnorm", "cpu", Retention(), 16, now=NOW).items) == 1
    assert second.read("softmax", "cpu", Retention(), 16, now=NOW).stored == 0


def test_a_write_that_fails_half_way_leaves_nothing(store: MemoryStore, conclusion: Make) -> None:
    connection = sqlite3.connect(store.path)
    connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON proof BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    connection.commit()
    with pytest.raises(sqlite3.IntegrityError, match="disk full"):
        store.write(conclusion())
    assert connection.execute("SELECT count(*) FROM conclusion").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("wrong", [{"count": 0}, {"submissions": 0}, {"hours": 0.0}])
def test_a_retention_that_shows_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Retention(**wrong)


def test_a_horizon_without_a_span_is_refused() -> None:
    with pytest.raises(ValueError, match="submissions, hours or both"):
        Retention.horizon()


def test_a_retention_says_what_it_shows() -> None:
    assert str(Retention()) == "at most 16"
    assert str(Retention.unbounded()) == "unbounded"
    assert str(Retention.horizon(submissions=20, hours=1.5)) == (
        "of the last 20 submissions, of the last 1.5 hours"
    )


def test_a_file_of_the_first_version_is_brought_up_to_date_and_shows_the_same(
    tmp_path: Path, conclusion: Make
) -> None:
    path = tmp_path / "memory.db"
    store = MemoryStore(path)
    store.write(conclusion(summary="near", verdict="ACCEPT", at="2026-01-01T12:40:00+01:00"))
    store.write(conclusion(summary="proven", at="2026-01-01T11:00:00+00:00"))
    store.write(conclusion(summary="newer", verdict="ACCEPT", at="2026-01-01T12:00:00+00:00"))
    expected = shown(store, limit=2)
    with sqlite3.connect(path) as old:
        for index in ("conclusion_by_use", "conclusion_by_campaign"):
            old.execute(f"DROP INDEX {index}")
        for column in ("confirmed", "latest_us", "latest_campaign", "latest_position"):
            old.execute(f"ALTER TABLE conclusion DROP COLUMN {column}")
        old.execute("DROP TABLE tally")
        old.execute("DELETE FROM _sqlite_migrations WHERE name = 'm002_what_decides_what_is_shown'")
    old.close()
    assert shown(MemoryStore(path), limit=2) == expected == ["newer", "proven"]
