"""Bounds with their sources, rooflines, and the report they end in."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernelarc_guard.inquiries import Counted, WorkCount
from kernelarc_guard.problem import Problem
from kernelarc_guard.roofs import MEASURED, Roof, Roofs, at_least, datasheet
from kernelarc_guard.rule import Rulers
from kernelarc_mcp.scores.bounds import Bounds, BoundsError, bounds_of, read_bounds
from kernelarc_mcp.scores.report import score_report
from kernelarc_mcp.scores.roofline import roofline, with_rulers
from kernelarc_mcp.scores.seen import SeenRoofs, rulers_apart
from kernelarc_mcp.scores.times import Times, WorkloadTimes

ROOFS = Roofs(
    device="Toy 1",
    memory=Roof(per_second=1e9, source="a data sheet", date="2026-01-02"),
    writes=Roof(per_second=2e9, source="a data sheet", date="2026-01-02"),
    matrix={"bfloat16": Roof(per_second=1e12, source="a data sheet", date="2026-01-02")},
)
WORK = WorkCount(
    uuid="w",
    read_bytes=3_000_000,
    written_bytes=1_000_000,
    operations={"bfloat16": 2_000_000_000},
    other_operations=0,
    how="the reference on shapes alone",
)


def problem(bounds: dict[str, Any] | None = None) -> Problem:
    return Problem.model_validate(
        {
            "definition": {
                "name": "toy",
                "axes": {"n": {"type": "var"}},
                "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
                "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
                "reference": "def run(x):\n    return x\n",
                "kernelarc": {"bounds": bounds} if bounds else {},
            },
            "workloads": [{"uuid": "w", "axes": {"n": 250_000}}],
        }
    )


def published(**changes: Any) -> dict[str, Any]:
    return {
        "device": "NVIDIA H200",
        "source": "a board",
        "date": "2026-08-11",
        "workloads": [{"uuid": "w", "t_sol_ms": 1.0, "t_b_ms": 5.0}],
        **changes,
    }


def times(solution: float | None, reference: float | None = None) -> Times:
    one = WorkloadTimes(uuid="w", solution_us=solution, reference_us=reference)
    return Times(solution="mine", source="a test", workloads=[one])


def counted() -> Counted:
    return Counted(id="c", at="2026-01-02", work=[WORK], roofs=ROOFS)


def test_the_slower_of_bytes_and_operations_bounds_a_workload() -> None:
    found = roofline(WORK, ROOFS, Bounds(), {"n": 1})
    assert found is not None
    assert found.milliseconds == pytest.approx(4.0) and found.limited_by == "memory"
    assert found.floor_ms == pytest.approx(0.5)
    many = WORK.model_copy(update={"operations": {"float8_e4m3fn": 9 * 10**9}})
    found = roofline(many, ROOFS, Bounds(), {"n": 1})
    assert found is not None, "a dtype without a rate is held to bfloat16's"
    assert found.milliseconds == pytest.approx(9.0) and found.limited_by == "float8_e4m3fn"


def test_a_reference_that_widens_its_inputs_is_held_to_their_own_rate() -> None:
    slow = Roof(per_second=1e11, source="a data sheet", date="2026-01-02")
    roofs = ROOFS.model_copy(update={"matrix": {**ROOFS.matrix, "float32": slow}})
    wide = WORK.model_copy(update={"operations": {"float32": 8 * 10**9}})
    for inputs, milliseconds, by in (((), 80.0, "float32"), (("bfloat16",), 8.0, "bfloat16")):
        found = roofline(wide, roofs, Bounds(), {"n": 1}, inputs)
        assert found is not None
        assert found.milliseconds == pytest.approx(milliseconds) and found.limited_by == by


def test_a_definition_that_quantises_is_held_to_the_fastest_rate_there_is() -> None:
    fast = Roof(per_second=1e13, source="a data sheet", date="2026-01-02")
    roofs = ROOFS.model_copy(update={"matrix": {**ROOFS.matrix, "float4_e2m1fn_x2": fast}})
    many = WORK.model_copy(update={"operations": {"float32": 10**11}})
    seen = counted().model_copy(update={"work": [many]})
    for keys, milliseconds in (({}, 100.0), ({"oracle": "declared"}, 10.0)):
        whole = problem().model_dump()
        whole["definition"]["kernelarc"] = keys
        made = Problem.model_validate(whole)
        own = score_report(made, None, Bounds(), seen, roofs, "cuda:0").workloads[0].roofline
        assert own is not None and own.milliseconds == pytest.approx(milliseconds)


def test_what_the_author_counted_goes_before_what_was_counted_here() -> None:
    own = Bounds(operations={"bfloat16": "n * 2"}, bytes="n * 4")
    found = roofline(WORK, ROOFS, own, {"n": 3_000_000_000})
    assert found is not None
    assert found.milliseconds == pytest.approx(12_000.0) and found.limited_by == "memory"
    with pytest.raises(BoundsError, match="axis 'm' is not known"):
        roofline(WORK, ROOFS, Bounds(bytes="m"), {"n": 1})


def test_without_any_known_roof_there_is_no_bound() -> None:
    bare = Roofs(device="Toy 2", memory=None, writes=None, matrix={})
    assert roofline(WORK, bare, Bounds(), {"n": 1}) is None
    assert datasheet("Toy 2") is None


def test_rulers_that_saw_more_than_a_roof_says_correct_it() -> None:
    fast = Rulers(empty_window_ns=1, write_bytes_per_second=1e9, copy_bytes_per_second=4e9)
    roofs = with_rulers(ROOFS, fast, "2026-02-03", 2)
    assert roofs.memory is not None and roofs.writes is not None
    assert (roofs.memory.per_second, roofs.memory.date) == (8e9, "2026-02-03")
    assert "rulers" in roofs.memory.source
    assert roofs.writes.per_second == 2e9 and at_least(None, roofs.writes) == roofs.writes


def test_a_campaigns_bounds_rest_on_its_own_rulers_whatever_is_measured_later() -> None:
    slow = Rulers(empty_window_ns=1, write_bytes_per_second=1e9, copy_bytes_per_second=1e9)
    day = Roof(per_second=6e9, source=f"{MEASURED}the best of some copies", date="2026-03-04")
    later = Roofs(device="cpu", memory=day, writes=day, matrix={})
    roofs = with_rulers(later, slow, "2026-02-03", 1)
    assert roofs.memory is not None and roofs.memory.per_second == 1e9
    (said,) = rulers_apart(later, roofs)
    assert "2026-02-03" in said and "2026-03-04" in said and "6e+09" in said


def test_a_loaded_machine_does_not_move_bounds_and_a_faster_hour_does(tmp_path: Path) -> None:
    def measured(rate: float, date: str) -> Roofs:
        roof = Roof(per_second=rate, source=f"{MEASURED}the best of some", date=date)
        return Roofs(device="cpu", memory=roof, writes=roof, matrix={"float32": roof})

    seen = SeenRoofs(tmp_path / "roofs")
    assert seen.best(measured(4e9, "monday"), 1) == (measured(4e9, "monday"), [])
    roofs, said = seen.best(measured(1e9, "tuesday"), 1)
    assert roofs == measured(4e9, "monday")
    assert len(said) == 3 and "monday" in said[0] and "something else ran" in said[0]
    assert seen.best(measured(5e9, "friday"), 1) == (measured(5e9, "friday"), [])
    assert seen.best(measured(1e9, "sunday"), 2) == (measured(1e9, "sunday"), [])


def test_a_score_comes_with_source_and_date_of_its_bound_and_says_where_it_compares() -> None:
    report = score_report(
        problem(published()), times(5000.0, 10_000.0), bounds_of(problem(published())), counted(),
        ROOFS, "cuda:0",
    )  # fmt: skip
    (row,) = report.workloads
    assert row.score == report.score == 0.5
    assert row.bound is not None and row.baseline is not None
    assert (row.bound.source, row.bound.date, row.bound.kind) == (
        "a board",
        "2026-08-11",
        "published",
    )
    assert row.baseline.source == "a board, 2026-08-11"
    assert not report.comparable
    assert any("not comparable" in line for line in report.warnings)
    assert row.over_reference == 2.0 and report.over_reference == pytest.approx(2.0)
    assert row.of_roofline == pytest.approx(0.8)


def test_without_published_bounds_the_score_is_against_the_roofline_and_the_reference() -> None:
    report = score_report(problem(), times(6000.0, 8000.0), Bounds(), counted(), ROOFS, "cuda:0")
    (row,) = report.workloads
    assert row.bound is not None and row.bound.kind == "roofline"
    assert row.bound.source == "a data sheet"
    assert row.score == pytest.approx(1 / (1 + 2 / 4))
    assert report.comparable


def test_a_bound_below_the_output_write_floor_is_flagged() -> None:
    huge = WORK.model_copy(update={"written_bytes": 10**12})
    seen = counted().model_copy(update={"work": [huge]})
    chosen = bounds_of(problem(published()))
    report = score_report(problem(), times(5000.0), chosen, seen, ROOFS, "cuda:0")
    bound = report.workloads[0].bound
    assert bound is not None and "output-write floor" in bound.flags[0]
    assert any("audit" in line for line in report.warnings)
    slow = ROOFS.model_copy(
        update={"writes": Roof(per_second=1.0, source="a data sheet", date="2026-01-02")}
    )
    own = score_report(problem(), None, Bounds(), counted(), slow, "cuda:0").workloads[0].roofline
    assert own is not None and "output-write floor" in own.flags[0]


def test_a_time_below_the_bound_is_flagged_and_a_failed_workload_scores_nothing() -> None:
    chosen = bounds_of(problem(published()))
    fast = score_report(problem(), times(900.0), chosen, counted(), ROOFS, "cuda:0")
    assert "faster than the bound" in fast.workloads[0].flags[0]
    failed = score_report(problem(), times(None), chosen, counted(), ROOFS, "cuda:0")
    assert failed.score == 0.0


def test_published_bounds_of_no_workload_are_told() -> None:
    rows = [{"uuid": "w", "t_sol_ms": 1.0, "t_b_ms": 5.0}, {"uuid": "mistyped", "t_sol_ms": 1.0}]
    chosen = bounds_of(problem(published(workloads=rows)))
    report = score_report(problem(), times(5000.0), chosen, counted(), ROOFS, "cuda:0")
    assert "1 of 2 published bounds are of no workload here, such as mistyped." in report.warnings


def test_bounds_alone_are_listed_without_a_measurement() -> None:
    report = score_report(problem(), None, Bounds(), counted(), ROOFS, "cuda:0")
    assert report.score is None and report.workloads[0].roofline is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source": ""}, "source: published times need one"),
        ({"date": ""}, "date: published times need one"),
        ({"workloads": [{"t_sol_ms": 1.0}]}, "expected a uuid or axes"),
        ({"workloads": [{"uuid": "w", "t_sol_ms": 0.0}]}, "t_sol_ms"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bounds_that_cannot_be_used_name_their_field(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BoundsError, match=said):
        bounds_of(problem(published(**changes)))
    file = tmp_path / "bounds.json"
    file.write_text(json.dumps(published(**changes)))
    with pytest.raises(BoundsError, match=f"bounds.json: .*{said}"):
        read_bounds(file)


def test_a_workload_is_found_by_its_axes_too(tmp_path: Path) -> None:
    file = tmp_path / "bounds.json"
    by_axes = [{"axes": {"n": 250_000}, "t_sol_ms": 2.5}]
    file.write_text(json.dumps(published(workloads=by_axes)))
    found = read_bounds(file).of(problem().workloads[0], {"n": 250_000})
    assert found is not None and (found.t_sol_ms, found.t_b_ms) == (2.5, None)
    with pytest.raises(BoundsError, match="no such file"):
        read_bounds(tmp_path / "gone.json")
