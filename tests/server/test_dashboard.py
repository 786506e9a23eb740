"""The dashboard's addresses on a real server: files for everybody, data for whoever has a token."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from host_places import judge_all, make_campaign, opened, planned, scripted_guard, silent_guard
from http_door import PATIENCE, Door, door
from server_campaigns import Place, create

from kernelarc_guard.device_state import DeviceState
from kernelarc_mcp.dashboard.gauges import Gauged
from kernelarc_mcp.dashboard.glance import Followed, glance
from kernelarc_mcp.dashboard.stream import STREAM, stream_page
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.host import Host

SECRET = "a_source_nobody_may_see"
FILES = (
    "charts.js",
    "dashboard.css",
    "dashboard.js",
    "echarts.min.js",
    "parts.js",
    "trust.js",
    "words.js",
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Return a server whose submissions stay queued."""
    folder = tmp_path_factory.mktemp("dashboard")
    guard = silent_guard(folder)
    place = create(folder / "campaign", attempts=40)
    with door(place, guard) as found:
        yield found


def viewer(place: Place) -> str:
    host = Host.open(place.folder)
    try:
        return host.issue_token("viewer", "viewer")
    finally:
        host.close()


def test_the_page_and_its_files_hold_nothing_of_the_campaign_and_load_nothing_from_elsewhere(
    here: Door,
) -> None:
    page = httpx2.get(f"{here.base}/", timeout=PATIENCE)
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy
    assert "doubling" not in page.text and "http" not in page.text
    for name in FILES:
        found = httpx2.get(f"{here.base}/dashboard/files/{name}", timeout=PATIENCE)
        assert found.status_code == 200 and found.text, name
        assert f"/dashboard/files/{name}" in page.text
    for name in ("dashboard.html", "echarts.LICENSE", "..%2F..%2Fhttp.py", "none"):
        assert httpx2.get(f"{here.base}/dashboard/files/{name}").status_code == 404, name


DATA = ["/dashboard/data", "/dashboard/data/changes", "/dashboard/data/submissions?before=1"]


@pytest.mark.parametrize("path", DATA)
def test_data_needs_a_token_of_this_campaign(here: Door, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer ka_wrong"}):
        assert httpx2.get(here.base + path, headers=headers).status_code == 401
    assert httpx2.post(here.base + path, headers=here.bearer("ada")).status_code in (404, 405)


def test_a_viewer_sees_every_submission_but_no_source_and_hears_of_changes(here: Door) -> None:
    headers = {"Authorization": f"Bearer {viewer(here.place)}"}
    host = Host.open(here.place.folder)
    try:
        host.register("ada")
        changes = f"{here.base}/dashboard/data/changes"
        with httpx2.stream("GET", changes, headers=headers, timeout=PATIENCE) as stream:
            heard = (line for line in stream.iter_lines() if line.startswith("data: "))
            before = int(next(heard)[6:])
            host.submit("ada", source=f"def run(x):\n    {SECRET} = x\n    return x + x\n")
            while int(next(heard)[6:]) <= before:
                pass
    finally:
        host.close()
    data = httpx2.get(f"{here.base}/dashboard/data", headers=headers, timeout=PATIENCE)
    assert data.status_code == 200 and data.headers["cache-control"] == "no-store"
    shown = json.loads(data.text)
    assert [(row["submission"], row["agent"]) for row in shown["stream"]["rows"]] == [
        ("s001", "ada")
    ]
    assert shown["attempts_used"] == 1 and shown["record"]["submission"] == "seed"
    assert shown["served"] and shown["gauges"]["blocks"] == 0
    assert SECRET not in data.text
    pages = f"{here.base}/dashboard/data/submissions"
    page = httpx2.get(f"{pages}?before=2", headers=headers, timeout=PATIENCE)
    assert [row["submission"] for row in page.json()["rows"]] == ["s001"]
    for wrong in ("", "?before=-1", "?before=x", "?before=" + "9" * 30):
        assert httpx2.get(pages + wrong, headers=headers, timeout=PATIENCE).status_code == 400


def test_a_glance_tells_verdicts_records_and_what_each_stood_on(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder)
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "gain:20"))
        host.submit("bob", source=planned(2, "wrong"))
    guard = scripted_guard(tmp_path)
    judge_all(folder, guard)
    campaign = open_campaign(folder)
    followed = Followed.of(campaign)
    with campaign.journal.reading() as state:
        first = glance(campaign, state, followed)
    with opened(folder) as host:
        for number in range(12):
            host.conclude(
                "ada", kind="win", summary=f"loads {number}", lesson="x" * 1200, evidence="s001"
            )
        host.submit("ada", source=planned(3, "gain:12"))
        host.submit("bob", source=planned(4, "gain:15"))
    judge_all(folder, guard)
    with campaign.journal.reading() as state:
        second = glance(campaign, state, followed)
        anew = glance(campaign, state, Followed.of(campaign))
    campaign.close()
    assert [(row.submission, row.verdict, row.parent) for row in first.stream.rows] == [
        ("s002", "REVERT", "seed"),
        ("s001", "KEEP", "seed"),
    ]
    assert [(dot.submission, dot.withdrawn) for dot in first.roofline.dots][-1] == ("s001", False)
    assert first.costs.total.usd == "unknown" and first.costs.total.keeps == 1
    assert first.curve.steps == [(0, 0.0, 1.0), (1, first.curve.steps[1][1], first.record.speedup)]
    assert [bar.name for bar in first.workloads] == ["n=8", "n=9"]
    assert first.about.said.endswith("(elementwise; float32; 2 workloads).")
    assert ("Seed (the speedups are over it)", first.about.facts[5][1]) == first.about.facts[5]
    # The record's time and the seed's are of one comparison, whatever stood between them.
    for shown in (first, second):
        ratios = [bar.over_seed.ratio for bar in shown.workloads if bar.over_seed is not None]
        assert math.prod(ratio**0.5 for ratio in ratios) == pytest.approx(shown.record.speedup)
        for bar, ratio in zip(shown.workloads, ratios, strict=True):
            assert bar.record_us is not None and bar.seed_us is not None
            assert bar.seed_us / bar.record_us == pytest.approx(ratio, rel=0.01)
    assert len(second.conclusions) == second.conclusions_stored == 12, (
        "none is left out for its length"
    )
    assert second.records_withdrawn == sum(bool(one.withdrawn) for one in second.records)
    # Followed or read from the beginning, also over a record that was withdrawn.
    assert second.curve == anew.curve and second.curve.judged == 4
    assert any(one.withdrawn for one in second.records)
    assert second.record.speedup == second.curve.steps[-1][2]
    assert {row.submission: row.parent for row in second.stream.rows}["s003"] == "s001"


def test_gauges_keep_the_lowest_and_the_highest_of_what_the_device_told() -> None:
    gauged = Gauged()
    gauged.add([DeviceState(free_bytes=1, sm_mhz=1980, power_w=131.5)])
    gauged.add([DeviceState(free_bytes=1, sm_mhz=1755), DeviceState(free_bytes=1, sm_mhz=1900)])
    seen = gauged.look()
    assert seen.blocks == 3 and seen.temperature_c is None
    assert seen.sm_mhz is not None and (seen.sm_mhz.lowest, seen.sm_mhz.highest) == (1755, 1980)
    assert seen.power_w is not None and seen.power_w.lowest == seen.power_w.highest == 131.5


def test_a_glance_stays_small(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder, attempts=400, pool=True)
    with opened(folder) as host:
        for number in range(STREAM + 20):
            host.submit("ada", source=planned(number, "gain:0"), summary="x" * 300)
    campaign = open_campaign(folder)
    with campaign.journal.reading() as state:
        shown = glance(campaign, state, Followed.of(campaign))
    assert len(shown.stream.rows) == STREAM
    assert shown.stream.rows[0].submission == f"s{STREAM + 20:03d}"
    assert shown.queued == STREAM + 20 and len(shown.model_dump_json()) < 100_000
    assert shown.stream.older == 21
    with campaign.journal.reading() as state:
        older = stream_page(state, shown.stream.older)
        beyond = stream_page(state, 1)
    campaign.close()
    assert [row.number for row in older.rows] == list(range(20, 0, -1))
    assert (older.older, older.attempts, beyond.rows, beyond.older) == (None, 120, [], None)
