"""Laws that hold for any conclusions and any retention."""

import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelarc_memory import (
    CapExceeded,
    MemoryStore,
    NewConclusion,
    Proof,
    Retention,
    Stored,
)
from kernelarc_memory.conclusion import check, text_digest
from kernelarc_memory.select import select

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(hours=200)
text = st.text(st.characters(exclude_categories=["Cs"]))


def new(summary: str, lesson: str, minute: int = 0, kind: str = "win") -> NewConclusion:
    return NewConclusion(
        kind="win" if kind == "win" else "trap",
        summary=summary,
        lesson=lesson,
        evidence=f"s{minute}",
        agent="ada",
        lens="",
        verdict="KEEP" if kind == "win" else "REVERT",
        reason="",
        speedup=None,
        device="cpu",
        operator_class="gemm",
        campaign="c",
        at=(START + timedelta(minutes=minute)).isoformat(),
        position=minute,
    )


@st.composite
def stored(draw: st.DrawFn) -> list[Stored]:
    kinds = draw(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 9000))))
    return [
        Stored(
            id=number,
            kind="win" if is_win else "trap",
            summary="s",
            lesson="l",
            device="cpu",
            operator_class="gemm",
            seen=1,
            proofs=(
                Proof(
                    evidence="s1",
                    agent="ada",
                    lens="",
                    verdict=("KEEP" if confirmed else "ACCEPT") if is_win else "REVERT",
                    reason="",
                    speedup=None,
                    campaign="c",
                    at=(START + timedelta(minutes=minute)).isoformat(),
                    position=minute,
                ),
            ),
        )
        for number, (is_win, confirmed, minute) in enumerate(kinds)
    ]


retentions = st.builds(
    Retention,
    count=st.none() | st.integers(1, 20),
    submissions=st.none() | st.integers(1, 9000),
    hours=st.none() | st.floats(0.1, 300),
)


@given(text, text)
def test_exactly_the_texts_within_their_caps_pass(summary: str, lesson: str) -> None:
    summary, lesson = "s" + summary * 5, "l" + lesson * 40
    if len(summary) <= 160 and len(lesson) <= 1200:
        check(new(summary, lesson))
    else:
        with pytest.raises(CapExceeded):
            check(new(summary, lesson))


@given(text, st.sampled_from([str.upper, str.title, lambda t: f" {t}\n"]))
def test_spacing_and_case_of_ascii_never_make_another_conclusion(
    lesson: str, change: object
) -> None:
    plain = "".join(c if c.isascii() else "x" for c in lesson)
    assert callable(change)
    assert text_digest("s", change(plain)) == text_digest("s", plain)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=10))
def test_counts_add_up_to_the_number_of_writes(summaries: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = MemoryStore(Path(folder) / "memory.db")
        merged = [store.write(new(s, "why", i)).merged for i, s in enumerate(summaries)]
        page = store.read("gemm", "cpu", Retention.unbounded(), 100, now=NOW.isoformat())
    assert merged.count(False) == page.stored == len(set(summaries))
    assert sum(item.seen for item in page.items) == len(summaries)
    assert all(len(item.proofs) == item.seen for item in page.items)


@given(stored(), retentions, st.integers(0, 30))
def test_a_view_is_bounded_newest_first_and_balanced(
    kept: list[Stored], retention: Retention, limit: int
) -> None:
    view = select(kept, retention, limit, now=NOW, campaign="c", position=9000)
    places = limit if retention.count is None else min(limit, retention.count)
    all_inside = select(
        kept,
        Retention(count=None, submissions=retention.submissions, hours=retention.hours),
        10_000,
        now=NOW,
        campaign="c",
        position=9000,
    )
    assert len(view) == min(places, len(all_inside))
    times = [datetime.fromisoformat(item.latest.at) for item in view]
    assert times == sorted(times, reverse=True)
    wins, traps = ([i for i in view if i.kind == kind] for kind in ("win", "trap"))
    left_out = [item for item in all_inside if item not in view]
    if any(item.kind == "win" for item in left_out):
        assert len(wins) >= len(traps)
    if any(item.kind == "trap" for item in left_out):
        assert len(traps) >= len(wins) - 1


@given(stored(), st.integers(1, 30))
def test_a_confirmed_gain_is_never_left_out_for_a_near_tie(kept: list[Stored], count: int) -> None:
    view = select(kept, Retention.bounded(count), 100, now=NOW)
    dropped = [item for item in kept if item not in view]
    if any(item.latest.verdict == "KEEP" for item in dropped):
        assert all(item.latest.verdict != "ACCEPT" for item in view)


@given(stored(), retentions)
def test_the_order_in_which_things_are_kept_does_not_matter(
    kept: list[Stored], retention: Retention
) -> None:
    assert select(kept, retention, 9, now=NOW) == select(kept[::-1], retention, 9, now=NOW)


@st.composite
def written(draw: st.DrawFn) -> list[NewConclusion]:
    """Conclusions of two campaigns, some of them said again by later submissions."""
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from("abcdefgh"),
                st.sampled_from(["win", "trap"]),
                st.booleans(),
                st.sampled_from(["c", "other"]),
                st.integers(0, 9000),
            ),
            max_size=12,
        )
    )
    return [
        replace(
            new(summary, "why", minute, kind),
            evidence=f"s{number}",
            campaign=campaign,
            verdict=("KEEP" if confirmed else "ACCEPT") if kind == "win" else "REVERT",
        )
        for number, (summary, kind, confirmed, campaign, minute) in enumerate(drawn)
    ]


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(written(), st.lists(st.tuples(retentions, st.integers(0, 6)), min_size=1, max_size=6))
def test_a_file_shows_what_choosing_from_all_it_holds_would_show(
    conclusions: list[NewConclusion], readers: list[tuple[Retention, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = MemoryStore(Path(folder) / "memory.db")
        for conclusion in conclusions:
            store.write(conclusion)
        everything = store.read("gemm", "cpu", Retention.unbounded(), 100, now=NOW.isoformat())
        assert everything.stored == len(everything.items)
        for retention, limit in readers:
            for kind in ("", "win", "trap"):
                kept = [item for item in everything.items if kind in ("", item.kind)]
                expected = select(kept, retention, limit, now=NOW, campaign="c", position=9000)
                page = store.read(
                    "gemm",
                    "cpu",
                    retention,
                    limit,
                    kind,
                    now=NOW.isoformat(),
                    campaign="c",
                    position=9000,
                )
                assert page.items == expected and page.stored == len(kept)
