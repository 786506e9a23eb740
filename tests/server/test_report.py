"""`report`: a page that stands alone, Markdown, JSON and CSV of any campaign."""

import csv
import json
import math
from html.parser import HTMLParser
from pathlib import Path

import pytest
from command_line import Run
from host_places import judge_all, make_campaign, opened, planned, scripted_guard
from server_campaigns import Place

from kernelarc_guard.ratios import ratio_of
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.report import BaselineReport
from kernelarc_mcp.reporting.ahead import ahead_lines
from kernelarc_mcp.reporting.approaches import approaches
from kernelarc_mcp.reporting.charts import MOST_MARKS, best_so_far
from kernelarc_mcp.reporting.document import KernelFile, read_document
from kernelarc_mcp.reporting.progress import Point
from kernelarc_mcp.reporting.workloads import WorkloadRow, spread_over_workloads
from kernelarc_mcp.reporting.writing import MOST_ROWS, html, markdown

SUMMARY = "a </script><b>bold</b> | claim"


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a campaign with a record, a failure, and an attempt that waits."""
    place = tmp_path_factory.mktemp("searched")
    folder = place / "campaign"
    make_campaign(folder)
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "gain:20"), summary=SUMMARY)
        host.submit("bob", source=planned(2, "wrong"), summary="half precision")
    judge_all(folder, scripted_guard(place))
    with opened(folder) as host:
        host.conclude("ada", kind="win", summary="wide loads.", lesson="use them", evidence="s001")
        host.submit("ada", source=planned(3, "gain:0"), summary="waits")
    return folder


class Tags(HTMLParser):
    """Collects a page's tags, its text, and whatever it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag and its addresses."""
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        """Note text outside of scripts and styles."""
        if self.tags and self.tags[-1] not in ("script", "style"):
            self.text += data


def test_a_report_says_the_result_how_sure_on_what_and_how_to_repeat_it(
    run: Run, searched: Path, tmp_path: Path
) -> None:
    status, out, err = run("report", str(searched), "--out", str(tmp_path / "r"))
    assert status == 0, err
    written = sorted(path.name for path in (tmp_path / "r").iterdir())
    assert written == ["report.html", "report.json", "report.md", "submissions.csv"]
    assert all(f"wrote {tmp_path / 'r' / name}" in out.replace("\n", "") for name in written)
    text = (tmp_path / "r" / "report.md").read_text()
    first = text.splitlines()
    assert first[0] == "# add (float32) on cpu: 1.22 times as fast as the seed"
    assert first[2].startswith("s001 of ada is 1.22") and "95 % interval 1.2" in first[2]
    assert first[2].endswith(
        "Found at attempt 1; 3 of 20 attempts are spent, the 1 judged since brought no confirmed gain,"
        " 1 without a verdict yet."
    )
    for said in (
        "The chance that this campaign ever says so of a candidate that is not is at most 1 %",
        "verify: every counter and verdict was computed again",
        "It is not corrected for selection",
        "# REPEATS THE HEADLINE: ",
        "kernelarc-mcp evaluate --problem DIR/problem --solution record.json --device cpu",
        "kernelarc-mcp reproduce DIR s001",
        "kernelarc-mcp new NEW --problem DIR/problem --device cpu --attempts 20 ",
        "| REVERT | Wrong, slower, or not shown close",
        "| Inputs | x float32 [n]; y float32 [n] |",
        "| REVERT | wrong_result | 1 |",
        "**win**, s001 KEEP, ada: wide loads: use them",
        "| Problem | add, digest ",
        ", last verdict 20",
        "# REPEATS THE HEADLINE: the record beside the seed, minutes; success: KEEP, with a speedup of 1.2",
        "in 95 of 100 repetitions on this very device",
        "By approach, as the agents named it.",
    ):
        assert said in text, said
    page = Tags((tmp_path / "r" / "report.html").read_text())
    assert first[2] in page.text and "REPEATS THE HEADLINE" in page.text
    for said in (
        "1.22",
        "at most 1 %",
        "wrong_result",
        "wide loads",
        SUMMARY,
        "kernelarc-mcp verify",
    ):
        assert said in page.text, said
    assert "tokens per KEEP" not in text, "nobody said what was used"
    assert page.loads == [] and "b" not in page.tags
    assert page.tags.count("h1") == 1 and "script" in page.tags


def test_what_programs_read_holds_every_attempt(run: Run, searched: Path, tmp_path: Path) -> None:
    assert run("report", str(searched), "--out", str(tmp_path))[0] == 0
    document = json.loads((tmp_path / "report.json").read_text())
    printed = json.loads(run("report", str(searched), "--json")[1])
    assert {**printed, "written_at": ""} == {**document, "written_at": ""}
    assert [one["best"] for one in document["progress"]][-1] == document["record"]["speedup"]
    with (tmp_path / "submissions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["submission"], row["verdict"]) for row in rows] == [
        ("s001", "KEEP"),
        ("s002", "REVERT"),
        ("s003", ""),
    ]
    assert rows[0]["summary"] == SUMMARY


def test_an_empty_campaign_has_a_report_without_charts(run: Run, place: Place) -> None:
    status, out, err = run("report", str(place.folder))
    assert status == 0, err
    page = Tags((place.folder / "report" / "report.html").read_text())
    assert (
        "No candidate was proven faster" in page.text and "Noise: not calibrated yet." in page.text
    )
    assert "script" not in page.tags


def test_a_ledger_that_does_not_verify_is_said_first(searched: Path, tmp_path: Path) -> None:
    document = read_document(searched, "0").model_copy(update={"findings": ["event row 7: odd"]})
    page = html(document)
    assert page.index("The ledger does not verify") < page.index('id="result"')
    assert "verify does NOT agree" in page and "all agree" not in page


def test_a_report_names_the_workload_that_makes_most_of_the_gain_and_one_that_regressed(
    searched: Path,
) -> None:
    rows = [
        WorkloadRow(uuid=uuid, axes={"n": n}, record_us=1.0, seed_us=seed, reference_us=3.0)
        for uuid, n, seed in (("w8", 8, 1.21), ("w9", 9, 9.0))
    ]
    assert spread_over_workloads(rows) == (
        "By workload 1.21 to 9.00 times (ratios of medians): n=9 alone makes 92 % of the gain (of its"
        " logarithm); the geometric mean without it is 1.21 times."
    )
    document = read_document(searched, "0")
    detail = "1.06x the record's speed. Workload 1 is shown slower than the band of 2 %."
    row = document.submissions[1].model_copy(
        update={"reason": "workload_regressed", "detail": detail}
    )
    text = markdown(document.model_copy(update={"submissions": [row], "workloads": rows}))
    assert "workload_regressed: n=9 |" in text and "n=9 alone makes 92 %" in text


def test_a_report_says_loudly_that_it_does_not_know_the_gpu_and_what_is_no_verdict(
    searched: Path,
) -> None:
    document = read_document(searched, "0")
    on_gpu = document.measured_on.model_copy(update={"device": "cuda:0", "toolchain": ""})
    known = on_gpu.model_copy(update={"gpu": "NVIDIA H200", "driver": "580.1", "toolchain": "x"})
    line = BaselineReport(
        name="torch.compile",
        speedup=0.61,
        detail="0.61x the record's speed over 1 screening pairs (sd 1 %); goal 1.02x.",
    )
    changes = {"measured_on": on_gpu, "baselines": [line]}
    text = markdown(document.model_copy(update=changes))
    assert "**GPU model and driver were not recorded (this campaign is older than that)" in text
    assert "0.61x the seed's speed over one screening pair; such pairs differed by 1 %" in text
    assert "Roughly 2 times as fast as torch.compile, the fastest line to beat" in text
    assert "roughly 2 times as fast as it" in text and "not measured side by side" in text
    text = markdown(document.model_copy(update={"measured_on": known}))
    assert text.startswith("# add (float32) on NVIDIA H200: ") and "580.1, in " in text


def test_a_long_search_stays_a_page_one_can_open(searched: Path) -> None:
    document = read_document(searched, "0")
    row = document.submissions[1]
    many = [row.model_copy(update={"submission": f"t{number}"}) for number in range(20_000)]
    page = html(document.model_copy(update={"submissions": document.submissions[:1] + many}))
    assert page.count('<tr><th scope="row" class="name">t') == MOST_ROWS
    assert (
        "19800 more are in submissions.csv" in page and '<th scope="row" class="name">s001' in page
    )


def test_charts_of_long_searches_keep_the_extremes() -> None:
    def point(number: int, verdict: str) -> Point:
        return Point(
            submission=f"t{number}",
            agent="ada",
            verdict=verdict,
            judged=number,
            device_seconds=number / 10,
            best=1.0 + (number > 40_000),
            over_seed=1.0 + (number == 12_345) - (number == 23_456) / 2,
        )

    points = [
        point(number, "KEEP" if number % 10_000 == 1 else "ACCEPT") for number in range(1, 50_001)
    ]
    chart = best_so_far(points, "judged", "verdicts", {"reference": 0.4})
    drawn = chart["series"]
    assert [one["yAxis"] for one in drawn[0]["markLine"]["data"]] == [0.4]
    assert (chart["yAxis"]["min"], chart["yAxis"]["max"]) == (0.0, 3.0)
    assert drawn[0]["data"] == [[0, 1.0], [40_001.0, 2.0], [50_000.0, 2.0]]
    names = [one["name"] for one in drawn[1]["data"]]
    assert len(names) <= MOST_MARKS and {"t12345 ACCEPT", "t23456 ACCEPT"} <= set(names)
    assert (names[0], names[-1]) == ("t1 KEEP", "t50000 ACCEPT")
    proven = [one["name"] for one in drawn[1]["data"] if one.get("symbol") != "emptyCircle"]
    assert proven and all(name.endswith(" KEEP") for name in proven)


def test_a_workload_has_its_own_interval_and_its_distance_to_what_the_device_allows(
    searched: Path,
) -> None:
    document = read_document(searched, "0")
    rows = document.workloads
    assert [row.seed_us for row in rows] == [1000.0, 1000.0]
    gains = [row.over_seed for row in rows if row.over_seed is not None]
    together = math.prod(one.ratio**0.5 for one in gains)
    assert len(gains) == 2 and together == pytest.approx(document.record.speedup)
    # The scripted guard's ruler copies 1e10 bytes a second; adding two numbers moves 12.
    assert [row.least_us for row in rows] == pytest.approx([96 / 1e4, 108 / 1e4])
    text = markdown(document)
    assert f"| {gains[0].lower:.3f} to {gains[0].upper:.3f} |" in text
    assert "Where gain is left: n=8 (0 %); n=9 (0 %) of what" in text


def test_what_to_do_next_follows_from_what_noise_hid_and_which_workload_is_noisy(
    searched: Path,
) -> None:
    document = read_document(searched, "0")
    assert document.calibration is not None and document.calibration.resolution is not None
    near = 1 + document.calibration.resolution / 200
    open_one = document.submissions[1].model_copy(
        update={"verdict": "REVERT", "reason": "not_proven_close", "speedup": near}
    )
    quiet, noisy = (ratio_of([20.0, 20.0 + width, 20.0 - width]) for width in (0.1, 4.0))
    rows = [
        row.model_copy(
            update={"over_seed": over, "record_us": row.least_us and 1.01 * row.least_us}
        )
        for row, over in zip(document.workloads, (quiet, noisy), strict=True)
    ]
    changes = {"workloads": rows, "submissions": [document.submissions[0], open_one]}
    found = "\n".join(ahead_lines(document.model_copy(update=changes)))
    assert "Every workload reaches 90 % or more" in found
    assert "1 attempt was measured faster" in found and "reproduce DIR s002" in found
    assert "pairs differ most on n=9, by 4 %" in found and "by 0.1 %" in found
    assert "Going on: 17 attempts are left" in found
    spent = document.model_copy(update={"attempts": 3, "submissions": []})
    assert "`--seed record.json`" in "\n".join(ahead_lines(spent))


def test_approaches_tell_what_was_proven_apart_from_what_was_only_measured(searched: Path) -> None:
    document = read_document(searched, "0")
    kept, wrong, _ = document.submissions
    other = wrong.model_copy(
        update={
            "submission": "s009",
            "against": "s001",
            "speedup": 1.5,
            "reason": "workload_regressed",
            "algorithm": kept.algorithm,
        }
    )
    rows = [kept, wrong.model_copy(update={"algorithm": "other"}), other]
    first, second = approaches(document.model_copy(update={"submissions": rows}))
    assert (first.kept, first.kept_by) == (document.record.speedup, "s001")
    assert first.other == pytest.approx(1.5 * document.record.speedup)
    assert (first.other_by, first.failed_of) == ("s009", "workload_regressed 1")
    assert (second.kept, second.other, second.failed_of) == (None, None, "wrong_result 1")


def test_the_kernel_is_in_the_report_whatever_it_holds(searched: Path) -> None:
    document = read_document(searched, "0")
    (file,) = document.record_files
    assert "PLAN = 'gain:20'" in file.content
    assert file.content.rstrip() in markdown(document)
    odd = KernelFile(path="odd.cu", content="```\n</pre><script>alert(1)</script>\n")
    large = KernelFile(path="large.py", content="x" * 70_000)
    changed = document.model_copy(update={"record_files": [odd, large]})
    page, text = html(changed), markdown(changed)
    assert "&lt;/pre&gt;&lt;script&gt;alert(1)" in page and "````cuda\n```\n" in text
    assert "left out here: 70000 characters" in page and "left out here: 70000" in text


def test_a_report_that_cannot_be_written_is_one_line(
    run: Run, place: Place, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    status, out, err = run("report", str(place.folder), "--out", str(tmp_path / "file"))
    assert (status, out, err.count("\n")) == (2, "", 1) and "cannot be written" in err


def test_reading_a_report_writes_no_row(searched: Path) -> None:
    def rows() -> int:
        campaign = open_campaign(searched)
        try:
            return campaign.journal.ledger.last_seq()
        finally:
            campaign.close()

    before = rows()
    read_document(searched, "0")
    assert rows() == before
