"""Answers stay short enough for every client, and their pages lead to all there is."""

import json
from typing import Any

import pytest
from server_campaigns import KERNEL, Place
from serving import ERAS, Era, answer_of, connected, text_of

from kernelarc_guard.protocol import BuildMessage, WorkloadReport
from kernelarc_mcp.host.errors import BadRequest
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.room import submission_within
from kernelarc_mcp.views import SubmissionView

SHORT = 10_000


@pytest.fixture
def queued(place: Place) -> SubmissionView:
    """Return a submission's view to be filled with what a judgement says."""
    host = Host.open(place.folder)
    host.register("ada")
    ticket, _ = host.submit("ada", source=KERNEL, summary="x + x")
    view = host.submission("ada", ticket)
    host.close()
    return view


def judged(view: SubmissionView, workloads: int) -> SubmissionView:
    """Return the view of a verdict as long as the guard can make one."""
    reports = [
        WorkloadReport(
            uuid=f"workload-{number}",
            axes={"rows": 4096, "columns": number + 1},
            state="failed" if number == workloads - 1 else "passed",
            detail='"' * 100,
            record_us=1234.567,
            candidate_us=1234.567,
        )
        for number in range(workloads)
    ]
    messages = [
        BuildMessage(file="kernel.cu", line=1, severity="error", message="\t" * 1000)
        for _ in range(20)
    ]
    said = {"detail": "\n" * 4000, "observations": ["seen " * 20] * 100}
    return view.model_copy(update={"workloads": reports, "build": messages, **said})


def test_a_verdict_on_many_workloads_is_short_shows_failures_first_and_pages_to_all(
    queued: SubmissionView,
) -> None:
    whole = judged(queued, 190)
    assert len(whole.model_dump_json()) > 80_000
    seen: list[str] = []
    first: int | None = 0
    while first is not None:
        page = submission_within(whole, first)
        assert len(page.model_dump_json()) < SHORT
        assert page.workloads
        seen += [report.uuid for report in page.workloads]
        first = page.next_workload
    assert seen[0] == "workload-189"
    assert sorted(seen) == sorted(report.uuid for report in whole.workloads)
    assert page.left_out["build"] == 20 - len(page.build) > 0
    assert page.left_out["observations"] == 100 - len(page.observations) > 0
    assert page.left_out["detail"] == 4000 - len(page.detail) > 0
    with pytest.raises(BadRequest, match="there are 190"):
        submission_within(whole, 190)


def test_a_short_verdict_stays_as_it_is(queued: SubmissionView) -> None:
    assert submission_within(queued) == queued
    assert submission_within(queued).left_out == {}


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_every_tools_text_is_its_structure_and_short(
    place: Place, silent_guard: str, era: Era
) -> None:
    source = KERNEL + "# " + '"\\\t' * 12_000 + "\n" + "# ü" * 3_000
    async with connected(Host.open(place.folder), "ada", silent_guard, era) as client:

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(tool, arguments)
            answer = answer_of(result)
            assert json.loads(text_of(result)) == answer, tool
            assert len(text_of(result)) < SHORT, tool
            return answer

        await call("get_brief")
        await call("get_strategy_lens")
        await call("read_memory", limit=64)
        rejected = await call(
            "submit_candidate", source=source, summary="x + x", entry_point="gone.py::run"
        )
        view = await call("submit_candidate", source=source, summary="x + x", wait_seconds=0)
        ticket = view["ticket"]
        await call("wait_submission", ticket=ticket, wait_seconds=0)
        text, offset = "", 0
        while offset is not None:
            page = await call("view_snapshot", submission=ticket, offset=offset)
            text, offset = text + page["text"], page["next_offset"]
        assert text == source
        await call("cancel_submission", ticket=ticket)
        trap = {"kind": "trap", "summary": "s", "lesson": "l", "evidence": rejected["ticket"]}
        await call("write_conclusion", **trap)
        await call("view_leaderboard")
