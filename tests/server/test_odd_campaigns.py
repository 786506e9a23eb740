"""Report, dashboard and status of campaigns in which little happened, or whose server was killed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Run
from dispatching import serving
from host_places import judge_all, make_campaign, opened, planned, scripted_guard
from http_door import until

from kernelarc_mcp.dashboard.glance import Followed, Glance, glance
from kernelarc_mcp.host.readable import readable
from kernelarc_mcp.reporting.document import read_document
from kernelarc_mcp.reporting.writing import html, markdown


def empty(place: Path) -> Path:
    folder = place / "campaign"
    make_campaign(folder)
    return folder


def one(place: Path) -> Path:
    folder = empty(place)
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "wrong"))
    judge_all(folder, scripted_guard(place))
    return folder


def crashed(place: Path) -> Path:
    """Kill the process that judges in the middle of a judgement."""
    folder = empty(place)
    guard = scripted_guard(place)
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "gain:20"))
    judge_all(folder, guard)
    with opened(folder) as host:
        host.submit("ada", source=planned(2, "halts_timing:5"))
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    (cache / "halt-timing.go").touch()
    with serving(folder, guard):
        until((cache / "halt-timing").exists, "the judgement began")
    return folder


def look(folder: Path) -> Glance:
    with readable(folder) as campaign, campaign.journal.reading() as state:
        return glance(campaign, state, Followed.of(campaign))


@pytest.mark.parametrize(
    ("make", "said", "verdicts", "states"),
    [
        (empty, "0 of 20 attempts were used", {}, []),
        (one, "1 of 20 attempts were used", {"REVERT": 1}, ["done"]),
        (crashed, "s001 of ada is 1.22", {"KEEP": 1}, ["judging", "done"]),
    ],
)
def test_what_little_there_is_is_shown_as_it_is(
    run: Run,
    tmp_path: Path,
    make: Callable[[Path], Path],
    said: str,
    verdicts: dict[str, int],
    states: list[str],
) -> None:
    folder = make(tmp_path)
    shown = look(folder)
    assert shown.verdicts == verdicts
    assert [row.state for row in shown.stream.rows] == states
    assert len(shown.curve.steps) == 1 + verdicts.get("KEEP", 0)
    json.loads(shown.model_dump_json())
    document = read_document(folder, "0")
    assert document.findings == []
    page, text = html(document), markdown(document)
    for unfit in ("None", "nan", "null"):
        assert f" {unfit} " not in text and f">{unfit}<" not in page, unfit
    assert said in page and said in text and "unknown, not zero" in text
    status, out, _ = run("status", str(folder))
    assert status == 0 and "Cost: No client said what it used" in out
    waits = "No server works on this campaign: 1 submission waits for one"
    assert (waits in out) == (waits in " ".join(shown.activity)) == (make is crashed)


def test_watching_where_no_terminal_is_says_a_line_for_each_change(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = empty(tmp_path)
    looks = 0

    def pause(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            with opened(folder) as host:
                host.submit("ada", source=planned(1, "gain:0"))
        if looks == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("kernelarc_mcp.cli.status.time.sleep", pause)
    status, out, _ = run("status", str(folder), "--watch")
    assert status == 0
    assert out.splitlines() == [
        "0 of 20 attempts used, 0 queued, 0 being judged; no verdict yet; record seed 1.000x",
        "1 of 20 attempts used, 1 queued, 0 being judged; no verdict yet; record seed 1.000x",
    ]
    status, _, error = run("status", str(folder), "--watch", "--json")
    assert status == 2 and "--watch" in error
