"""The tuner's proposals as pure functions: traps, wins, directives and conclusions."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelfamilies.catalogue import FAMILIES, family_for
from kernelfamilies.family import Family, flags, read_header
from tuning.lessons import Known, Rule, Win, read_conclusions, ruled_out, trap, win
from tuning.search import Place, Proposal, Search

from kernelarc_memory.conclusion import LESSON_CAP, SUMMARY_CAP

RMSNORM = FAMILIES["rmsnorm"][0]
NOTHING = Known()


def walk(search: Search, known: Known = NOTHING, verdict: str = "REVERT") -> Iterator[Proposal]:
    """Yield proposals while every one of them gets the same verdict."""
    number = 0
    while (proposal := search.propose(known)) is not None:
        number += 1
        yield proposal
        branch = f"s{number}" if verdict == "ACCEPT" else "seed"
        search.settle(proposal, f"s{number}", branch, gained=False)


def view(verdict: str, reason: str, **more: Any) -> dict[str, Any]:
    return {"verdict": verdict, "reason": reason, "speedup": None, "build": [], "detail": ""} | more


def test_the_first_proposal_is_the_start_of_the_lens() -> None:
    proposal = Search(RMSNORM, "operator-fusion", 1).propose(NOTHING)
    assert proposal is not None
    assert proposal.place.algorithm == "two-sweep"
    assert proposal.place.point["sum"] == "double"
    assert proposal.changed == ()


@pytest.mark.parametrize("name", FAMILIES)
def test_two_lenses_of_a_problem_do_not_start_with_the_same_kernel(name: str) -> None:
    family = FAMILIES[name][0]
    starts = [Search(family, lens, 1).base.name for lens in list(family.plans)[:2]]
    assert len(set(starts)) == 2


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), st.integers(0, 99), st.sampled_from(["REVERT", "ACCEPT"]))
def test_nothing_is_proposed_twice(name: str, seed: int, verdict: str) -> None:
    family = FAMILIES[name][0]
    for lens in list(family.plans)[:2]:
        steps = islice(walk(Search(family, lens, seed), verdict=verdict), 40)
        names = [proposal.place.name for proposal in steps]
        assert len(names) == len(set(names))


def test_the_same_seed_walks_the_same_way() -> None:
    walks = [
        [p.place.name for p in islice(walk(Search(RMSNORM, "hardware-native", seed)), 40)]
        for seed in (7, 7)
    ]
    assert walks[0] == walks[1]


def test_after_a_revert_the_next_step_starts_from_the_branch_again() -> None:
    search = Search(RMSNORM, "operator-fusion", 1)
    first = search.propose(NOTHING)
    assert first is not None
    search.settle(first, "s1", branch="s1", gained=True)
    for number in range(2, 6):
        step = search.propose(NOTHING)
        assert step is not None
        search.settle(step, f"s{number}", branch="s1", gained=False)
        search.restore("s1")
        assert search.base == first.place
        different = {a for a, v in step.place.point.items() if first.place.point[a] != v}
        assert different == set(step.changed) and len(different) == 1


def test_an_accepted_step_is_walked_on_from() -> None:
    search = Search(RMSNORM, "operator-fusion", 1)
    for number in range(1, 4):
        step = search.propose(NOTHING)
        assert step is not None
        search.settle(step, f"s{number}", branch=f"s{number}", gained=True)
        assert search.base == step.place


def test_a_trap_rules_out_every_point_with_its_values() -> None:
    rule = Rule("two-sweep", {"vector": "avx512", "target": "x86-64-v3"})
    proposals = list(walk(Search(RMSNORM, "hardware-native", 1), Known(rules=(rule,))))
    assert proposals
    assert not any(rule.excludes(p.place.algorithm, p.place.point) for p in proposals)


def test_a_trap_of_another_algorithm_rules_out_nothing() -> None:
    rule = Rule("row-groups", {"vector": "8"})
    assert not Known(rules=(rule,)).excludes("two-sweep", {"vector": "8"})


def test_a_win_of_the_same_algorithm_is_where_the_next_step_starts() -> None:
    point = RMSNORM.point("two-sweep", {"accumulators": "8", "target": "native"})
    known = Known(wins=(Win("two-sweep", point, 2.0),))
    proposal = Search(RMSNORM, "operator-fusion", 1).propose(known)
    assert proposal is not None
    assert len(proposal.changed) == 1
    assert all(proposal.place.point[a] == v for a, v in point.items() if a not in proposal.changed)


def test_after_a_revert_the_agent_still_starts_from_a_win_newer_than_its_branch() -> None:
    point = RMSNORM.point("two-sweep", {"accumulators": "8", "target": "native"})
    known = Known(wins=(Win("two-sweep", point, 2.0),))
    search = Search(RMSNORM, "operator-fusion", 1)
    for number in range(3):
        step = search.propose(known)
        assert step is not None and step.on_record and len(step.changed) == 1
        search.settle(step, f"s{number}", branch="seed", gained=False)


def test_a_branch_accepted_after_a_win_is_not_left_for_it_again() -> None:
    point = RMSNORM.point("two-sweep", {"accumulators": "8", "target": "native"})
    known = Known(wins=(Win("two-sweep", point, 2.0),))
    search = Search(RMSNORM, "operator-fusion", 1)
    accepted = search.propose(known)
    assert accepted is not None
    search.settle(accepted, "s1", branch="s1", gained=True)
    step = search.propose(known)
    assert step is not None and not step.on_record
    assert all(
        step.place.point[axis] == value
        for axis, value in accepted.place.point.items()
        if axis not in step.changed
    )


def test_a_win_of_another_algorithm_waits_for_a_draft() -> None:
    known = Known(wins=(Win("library", {"call": "fused"}, 9.0),))
    proposal = Search(RMSNORM, "operator-fusion", 1).propose(known)
    assert proposal is not None and proposal.place.algorithm == "two-sweep"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_draft_is_another_algorithm_and_the_next_one_another_again(name: str) -> None:
    family = FAMILIES[name][0]
    search = Search(family, next(iter(family.plans)), 1)
    seen = [search.base.algorithm]
    for lens in list(family.plans)[1:4]:
        search.draft(lens, None)
        seen.append(search.base.algorithm)
    assert len(set(seen)) == 4


def test_a_draft_takes_the_peers_algorithm_and_changes_something_on_it() -> None:
    search = Search(RMSNORM, "operator-fusion", 1)
    peer = Place("row-groups", RMSNORM.point("row-groups", {"rows": "8"}))
    search.draft("memory-layout", peer)
    proposal = search.propose(NOTHING)
    assert proposal is not None
    assert proposal.place.algorithm == "row-groups"
    assert proposal.place != peer and proposal.changed


def test_a_draft_from_a_peer_on_the_same_algorithm_goes_its_own_way() -> None:
    search = Search(RMSNORM, "operator-fusion", 1)
    search.draft("tile-pipeline", Place("two-sweep", RMSNORM.point("two-sweep", {})))
    assert search.base.algorithm == "row-groups"


def test_a_peer_that_no_tuner_wrote_is_no_starting_point() -> None:
    assert read_header("// my own kernel\nint main() {}\n") is None
    assert read_header("") is None


def test_an_earlier_runs_branch_is_taken_up_and_not_submitted_again() -> None:
    search = Search(RMSNORM, "operator-fusion", 1)
    place = Place("row-groups", RMSNORM.point("row-groups", {"rows": "8"}))
    search.resume("s9", place)
    proposal = search.propose(NOTHING)
    assert proposal is not None
    assert proposal.place.algorithm == "row-groups" and proposal.place != place


def test_what_one_tuner_writes_another_reads() -> None:
    algorithm = RMSNORM.algorithms["two-sweep"]
    point = RMSNORM.point("two-sweep", {"vector": "16"})
    _, won = win("two-sweep", point, ("vector",), 1.7)
    slower = view("REVERT", "slower", speedup=0.9)
    _, lost = trap(algorithm, point, ("vector",), slower, on_record=True)
    known = read_conclusions(
        [
            {"kind": "win", "lesson": won, "speedup": 1.7},
            {"kind": "trap", "lesson": lost, "speedup": 0.9},
            {"kind": "trap", "lesson": "Written by somebody else.", "speedup": None},
        ]
    )
    assert known.wins == (Win("two-sweep", point, 1.7),)
    (rule,) = known.rules
    assert rule.excludes("two-sweep", point)
    assert set(rule.values) == {"vector", "target", "accumulators"}


def test_a_refused_compilation_rules_out_the_value_for_that_target_only() -> None:
    algorithm = RMSNORM.algorithms["two-sweep"]
    point = dict(algorithm.start) | {"vector": "avx512"}
    values = ruled_out(algorithm, point, ("vector",), "build_failed", False)
    assert values == {"vector": "avx512", "target": point["target"]}


@pytest.mark.parametrize(
    ("changed", "reason", "on_record"),
    [
        ((), "slower", True),
        (("rows",), "slower", False),
        (("rows",), "not_proven_close", True),
    ],
)
def test_a_time_that_does_not_speak_about_the_change_rules_out_one_point(
    changed: tuple[str, ...], reason: str, on_record: bool
) -> None:
    algorithm = RMSNORM.algorithms["row-groups"]
    assert ruled_out(algorithm, algorithm.start, changed, reason, on_record) == algorithm.start


def test_what_the_compiler_refuses_in_one_algorithm_is_tried_in_no_other() -> None:
    algorithm = RMSNORM.algorithms["two-sweep"]
    point = dict(algorithm.start) | {"vector": "avx512"}
    _, lesson = trap(algorithm, point, ("vector",), view("REJECT", "build_failed"), True)
    known = read_conclusions([{"kind": "trap", "lesson": lesson}])
    assert known.excludes("row-groups", {"vector": "avx512", "target": point["target"]})
    assert not known.excludes("row-groups", {"vector": "avx512", "target": "native"})
    assert not known.excludes("row-groups", {"vector": "8", "target": point["target"]})


def test_a_draft_that_the_gate_refused_goes_on_with_the_same_algorithm() -> None:
    search = Search(RMSNORM, "operator-fusion", 1)
    search.draft("memory-layout", None)
    first = search.propose(NOTHING)
    assert first is not None
    search.settle(first, "s1", branch="seed", gained=False, stay=True)
    second = search.propose(NOTHING)
    assert second is not None
    assert second.place.algorithm == first.place.algorithm and second.place != first.place


def test_a_wrong_result_rules_out_the_value_wherever_it_is_used() -> None:
    algorithm = FAMILIES["softmax"][0].algorithms["three-sweep"]
    point = dict(algorithm.start) | {"exp": "poly3"}
    assert ruled_out(algorithm, point, ("exp",), "wrong_result", False) == {"exp": "poly3"}


@settings(deadline=None)
@given(
    st.sampled_from([(n, a) for n, (f, _, _) in FAMILIES.items() for a in f.algorithms]),
    st.text(max_size=3000),
    st.floats(0.001, 1e6),
)
def test_conclusions_stay_within_the_memorys_caps(
    which: tuple[str, str], detail: str, speedup: float
) -> None:
    family: Family = FAMILIES[which[0]][0]
    algorithm = family.algorithms[which[1]]
    axes = tuple(algorithm.axes)
    errors = [{"severity": "error", "message": detail, "file": "kernel.cpp", "line": 1}]
    for summary, lesson in (
        win(algorithm.name, algorithm.start, axes, speedup),
        trap(algorithm, algorithm.start, axes, view("REJECT", "build_failed", build=errors), True),
        trap(algorithm, algorithm.start, axes, view("REVERT", "crashed", detail=detail), False),
    ):
        assert 0 < len(summary) <= SUMMARY_CAP
        assert 0 < len(lesson) <= LESSON_CAP
        (said,) = [line for line in lesson.splitlines() if line.startswith("tuner-")]
        assert said == lesson.splitlines()[-1] and "algorithm=" in said


def test_the_flags_of_a_point_are_its_axes() -> None:
    point = {"opt": "O2", "target": "native", "fastmath": "yes"}
    assert flags(point) == ("-O2", "-march=native", "-ffast-math")
    assert flags({"opt": "O3", "target": "generic", "fastmath": "no"}) == ("-O3",)


def test_a_problem_is_served_by_name_and_interface() -> None:
    assert family_for("rmsnorm_h4096", ["x", "w"], ["y"]) is RMSNORM
    assert family_for("rmsnorm", ["x", "w", "residual"], ["y"]) is None
    assert family_for("gather", ["x", "i"], ["y"]) is None
