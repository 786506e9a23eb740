"""A campaign's roofline: its rulers as roofs, a dot for each KEEP, and what is not known left open."""

from pathlib import Path

import pytest
from host_places import judge_all, make_campaign, make_problem, opened, planned, scripted_guard

from kernelarc_guard.inquiries import WorkCount
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.reporting.roofline import roofline_chart
from kernelarc_mcp.reporting.thinning import thinned
from kernelarc_mcp.scores.counts import keep_counts
from kernelarc_mcp.scores.dots import RooflineView, roofline_view

MOVED = 12 * (8 + 9)
"""Bytes of two inputs and an output of 8 and of 9 floats."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a campaign with two KEEPs."""
    place = tmp_path_factory.mktemp("dots")
    folder = place / "campaign"
    make_campaign(folder)
    for number in (1, 2):
        with opened(folder) as host:
            host.submit("ada", source=planned(number, "gain:20"))
        judge_all(folder, scripted_guard(place))
    return folder


def view_of(folder: Path) -> RooflineView:
    campaign = open_campaign(folder)
    try:
        with campaign.journal.reading() as state:
            return roofline_view(campaign, state)
    finally:
        campaign.close()


def test_without_counted_operations_the_memorys_roof_and_a_dot_per_keep_are_drawn(
    kept: Path,
) -> None:
    view = view_of(kept)
    # The scripted guard's ruler copies 1e10 bytes a second, its first record takes 1 ms a workload.
    assert (view.bytes, view.operations, view.memory, view.limited_by) == (
        MOVED,
        None,
        1e10,
        "memory",
    )
    assert view.bound_us == pytest.approx(MOVED / 1e10 * 1e6)
    assert [dot.submission for dot in view.dots] == ["seed", "s001", "s002"]
    seed = view.dots[0]
    assert seed.microseconds == 2000.0 and seed.operations_per_second is None
    assert seed.bytes_per_second == pytest.approx(MOVED / 2e-3)
    assert seed.of_bound == pytest.approx(MOVED / 1e10 / 2e-3)
    assert any("`kernelarc-mcp score DIR` counts them" in note for note in view.notes)
    assert view.words.startswith("One call on every workload takes s002 ")
    chart = roofline_chart(view)
    assert [one["name"] for one in chart["series"]] == ["memory's roof", "seed", "KEEP"]
    assert [one["name"].split(",")[0] for one in chart["series"][2]["data"]] == ["s001", "s002"]


def test_with_counts_that_were_kept_dots_stand_at_their_intensity(kept: Path) -> None:
    work = [
        WorkCount(
            uuid=workload.uuid,
            read_bytes=64,
            written_bytes=36,
            operations={"float32": 1000},
            other_operations=0,
            how="by hand",
        )
        for workload in make_problem().workloads
    ]
    campaign = open_campaign(kept)
    keep_counts(kept, campaign.problem, work)
    campaign.close()
    view = view_of(kept)
    assert (view.bytes, view.operations) == (200, 2000)
    assert view.dots[0].operations_per_second == pytest.approx(1e6)
    # The rulers of a CPU have no rate of products: the slope alone is a roof.
    chart = roofline_chart(view)
    assert chart["xAxis"]["type"] == "log" and view.matrix == {}
    assert [point["value"][0] for point in chart["series"][1]["data"]] == [10.0]
    other = make_problem().model_copy(update={"workloads": make_problem().workloads[:1]})
    keep_counts(kept, other, work[:1])
    assert view_of(kept).operations is None, "counts of another problem are not this one's"


def test_a_campaign_that_was_not_calibrated_has_no_roof(tmp_path: Path) -> None:
    make_campaign(tmp_path / "campaign")
    view = view_of(tmp_path / "campaign")
    assert (view.memory, view.bound_us, view.dots) == (None, None, [])
    assert roofline_chart(view)["series"] == []


def test_thinning_keeps_ends_and_extremes_in_order() -> None:
    points = [(number, 0) for number in range(10_000)]
    points[5_000] = (5_000, 9)
    points[7_001] = (7_001, -9)
    few = thinned(points, 100, lambda point: point[1])
    assert len(few) <= 100 and few == sorted(few)
    assert {(0, 0), (5_000, 9), (7_001, -9), (9_999, 0)} <= set(few)
    assert thinned(points[:7], 100, lambda point: point[1]) == points[:7]
    with pytest.raises(ValueError, match="at least 4"):
        thinned(points, 3, lambda point: point[1])
