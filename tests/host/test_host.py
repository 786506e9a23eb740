"""What agents may ask of the host, and what they are told when they may not."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import anyio
import pytest
from host_places import kernel, make_campaign, planned

from kernelarc_guard.definition import KernelArcKeys
from kernelarc_guard.workload import Tolerance
from kernelarc_mcp.host.correctness import correctness_view, tolerance_view
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.envelope import MAX_BYTES, MAX_FILES
from kernelarc_mcp.host.errors import (
    BadRequest,
    HostError,
    NotAllowed,
    NotYours,
    UnknownAgent,
    UnknownTicket,
)
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.snapshots import PAGE
from kernelarc_mcp.host.verify import verify


@pytest.fixture
def host(folder: Path) -> Iterator[Host]:
    opened = Host.open(folder)
    opened.register("ada")
    opened.register("bob")
    yield opened
    opened.close()
    assert verify(folder) == []


def rows(host: Host) -> int:
    return host.campaign.journal.ledger.last_seq()


def test_a_brief_registers_once_and_says_where_the_agent_stands(host: Host) -> None:
    before = rows(host)
    brief = host.brief("ada")
    assert rows(host) == before
    assert brief.state.branch == "seed" and brief.state.directive == "CONTINUE"
    assert brief.record.submission == "seed" and brief.record.speedup == 1.0
    assert (Path(brief.workspace) / "reference.py").is_file()
    assert "def run(x, y):" in brief.interface
    assert brief.state.lens != host.brief("bob").state.lens


def test_a_brief_says_what_a_right_answer_is_and_what_a_call_is_held_to(host: Host) -> None:
    brief = host.brief("ada")
    problem, schedule = host.campaign.problem, host.campaign.settings.schedule
    assert brief.correctness.tolerance_mode == problem.definition.kernelarc.tolerance == "strict"
    assert "float64" in brief.correctness.means and "bfloat16" in brief.correctness.means
    assert len({workload.tolerance for workload in problem.workloads}) == 1
    told, first = brief.tolerance, problem.workloads[0].tolerance
    assert told is not None and (told.max_atol, told.max_rtol) == (first.max_atol, first.max_rtol)
    assert told.required_matched_ratio == 1.0  # strict: every element
    assert all(shown.tolerance is None for shown in brief.workloads)
    assert brief.limits.call_seconds == schedule.call_seconds
    assert brief.limits.load_seconds == schedule.start_seconds
    assert brief.limits.build_seconds == schedule.build_seconds
    assert brief.limits.threads == problem.definition.kernelarc.threads
    assert "-O3 -march=native" in brief.interface


@pytest.mark.parametrize("mode", get_args(KernelArcKeys.model_fields["tolerance"].annotation))
def test_every_tolerance_mode_is_explained(mode: str) -> None:
    keys = KernelArcKeys.model_validate({"tolerance": mode, "determinism": "bitwise"})
    view = correctness_view(keys)
    assert view.tolerance_mode == mode and "max_atol" in view.means and "same bits" in view.means
    shown = tolerance_view(Tolerance(required_matched_ratio=0.9), keys)
    assert shown.required_matched_ratio == (0.9 if mode == "sol" else 1.0)


def test_an_agent_nobody_expects_is_refused_without_a_pool(host: Host, tmp_path: Path) -> None:
    with pytest.raises(UnknownAgent, match="expects ada, bob"):
        host.brief("eve")
    make_campaign(tmp_path / "pool", pool=True)
    other = Host.open(tmp_path / "pool")
    assert other.brief("eve").state.attempts_left == 20
    with pytest.raises(UnknownAgent):
        other.brief("../eve")
    with pytest.raises(UnknownAgent):
        other.brief("ADA")
    other.close()


def test_a_later_agent_brings_its_attempts_and_takes_its_part_of_the_error_budget(
    host: Host,
) -> None:
    with pytest.raises(NotAllowed, match="must bring attempts of its own: `--attempts N`"):
        host.add_agent("cyd")
    host.add_agent("cyd", attempts=3)
    assert host.brief("cyd").state.attempts_left == 3
    with host.campaign.journal.reading() as state:
        assert sum(state.wealth.values()) == pytest.approx(0.01)
        assert len({round(amount, 12) for amount in state.wealth.values()}) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"source": "x" * (MAX_BYTES + 1)}, "envelope_too_large"),
        ({"files": {f"f{n}.py": "x = 1" for n in range(MAX_FILES)}}, "envelope_too_large"),
        ({"filename": "../kernel.py"}, "envelope_bad_path"),
        ({"filename": "/etc/kernel.py"}, "envelope_bad_path"),
        ({"files": {"kernel.py": "y = 2"}}, "envelope_bad_path"),
        ({"source": ""}, "envelope_bad_text"),
        ({"source": "  \n"}, "envelope_bad_text"),
        ({"source": "run = '\ud800'"}, "envelope_bad_text"),
        ({"source": "run = 1\x00"}, "envelope_bad_text"),
        ({"language": "fortran"}, "envelope_bad_language"),
        ({"language": "triton"}, "envelope_bad_language"),
        ({"entry_point": "other.py::run"}, "envelope_bad_entry"),
        ({"entry_point": "kernel.py::walk"}, "envelope_bad_entry"),
        ({"entry_point": "kernel.py::not a name"}, "envelope_bad_entry"),
    ],
)
def test_a_malformed_submission_is_stored_charged_and_rejected(
    host: Host, change: dict[str, object], reason: str
) -> None:
    arguments: dict[str, object] = {"source": kernel(1), "filename": "kernel.py"} | change
    ticket, charged = host.submit("ada", **arguments)  # type: ignore[arg-type]
    view = host.submission("ada", ticket)
    assert charged and (view.verdict, view.reason) == ("REJECT", reason)
    assert view.detail.endswith(".") and view.stage == "envelope"
    assert view.state_after.attempts_used == 1 and view.state_after.r == 0


@pytest.mark.parametrize(
    "change",
    [
        {"summary": "x" * 301},
        {"algorithm": "a\x00b"},
        {"layout": "\udfff"},
        {"binding": "swig"},
        {"tokens": -1},
        {"cost": float("nan")},
        {"cflags": ["-O3"] * 65},
        {"request_id": "r" * 121},
    ],
)
def test_an_impossible_argument_is_refused_and_nothing_is_stored(
    host: Host, change: dict[str, object]
) -> None:
    before = rows(host)
    with pytest.raises(BadRequest, match=next(iter(change))):
        host.submit("ada", source=kernel(1), **change)  # type: ignore[arg-type]
    assert rows(host) == before


def test_the_same_request_again_charges_nothing_even_after_the_budget_is_spent(
    host: Host,
) -> None:
    first = host.submit("ada", source=kernel(0), request_id="zero")
    for number in range(1, 10):
        host.submit("ada", source=kernel(number))
    assert host.submit("ada", source=kernel(0), request_id="zero") == (first.ticket, False)
    before = rows(host)
    with pytest.raises(HostError, match="no attempt is left for ada"):
        host.submit("ada", source=kernel(77), request_id="new")
    assert rows(host) == before
    assert host.brief("ada").next_step.startswith("STOP")
    # Request ids are an agent's own.
    assert host.submit("bob", source=kernel(78), request_id="zero").charged


def test_the_same_source_in_other_clothes_is_a_duplicate(host: Host) -> None:
    first = host.submit("ada", source=kernel(1)).ticket
    dressed = "# better now\n" + kernel(1).replace("x + y", "( x+y )".replace(" ", ""))
    same = "# better now\n\n" + kernel(1).replace("x + y", "x  +  y  # faster")
    again = host.submit("bob", source=same, summary="new", filename="other.py").ticket
    view = host.submission("bob", again)
    assert (view.reason, view.duplicate_of, view.stage) == ("duplicate", first, "duplicate")
    assert first in view.detail and view.state_after.attempts_used == 1
    different = host.submit("bob", source=dressed).ticket
    assert host.submission("bob", different).reason is None


def test_a_cancelled_source_was_never_judged_and_may_come_again(host: Host) -> None:
    first = host.submit("ada", source=kernel(1)).ticket
    cancelled = host.cancel("ada", first)
    assert (cancelled.verdict, cancelled.reason) == ("REJECT", "cancelled")
    assert cancelled.state_after.attempts_used == 1 and cancelled.state_after.r == 0
    before = rows(host)
    assert "Nothing was cancelled" in host.cancel("ada", first).message
    assert rows(host) == before
    again = host.submit("ada", source=kernel(1)).ticket
    assert host.submission("ada", again).state == "queued"


def test_tickets_of_others_and_unknown_ones_are_told_apart(host: Host) -> None:
    ticket = host.submit("ada", source=kernel(1)).ticket
    before = rows(host)
    for look in (host.submission, host.cancel):
        with pytest.raises(NotYours, match="submitted by ada"):
            look("bob", ticket)
        with pytest.raises(UnknownTicket, match="no submission"):
            look("bob", "s999")
    with pytest.raises(NotYours):
        host.conclude("bob", "win", "a", "b", ticket)
    assert rows(host) == before


def test_what_changed_grows_with_events_and_signs_of_life(host: Host, guard: str) -> None:
    ticket = host.submit("ada", source=planned(1, "gain:0")).ticket
    before = host.changed(ticket)
    assert host.changed(ticket) == before
    anyio.run(Dispatcher(host, guard).run_until_idle)
    assert host.changed(ticket) > before


def test_a_conclusion_needs_evidence_that_fits_and_keeps_to_its_caps(
    host: Host, guard: str
) -> None:
    kept = host.submit("ada", source=planned(1, "gain:20")).ticket
    wrong = host.submit("ada", source=planned(2, "wrong")).ticket
    with pytest.raises(NotAllowed, match="no verdict yet"):
        host.conclude("ada", "win", "a", "b", kept)
    anyio.run(Dispatcher(host, guard).run_until_idle)
    before = rows(host)
    for kind, evidence in (("win", wrong), ("trap", kept)):
        with pytest.raises(BadRequest, match="must cite"):
            host.conclude("ada", kind, "a", "b", evidence)
    with pytest.raises(BadRequest, match="161 characters, the cap is 160"):
        host.conclude("ada", "win", "s" * 161, "b", kept)
    with pytest.raises(BadRequest, match="1201 characters, the cap is 1200"):
        host.conclude("ada", "win", "s", "b" * 1201, kept)
    with pytest.raises(BadRequest, match="win or trap"):
        host.conclude("ada", "idea", "s", "b", kept)
    assert rows(host) == before and host.memory("bob").stored == 0
    host.conclude("ada", "win", "Blocks of 64", "Fits the first-level cache.", kept)
    host.conclude("ada", "trap", "fp16 sums", "Overflow.", wrong)
    again = host.conclude("ada", "trap", "FP16  sums", "overflow.", wrong)
    assert again.merged
    seen = host.memory("bob").conclusions
    facts = {c.kind: (c.evidence, c.verdict, c.reason, c.speedup is not None) for c in seen}
    assert facts == {
        "win": (kept, "KEEP", "confirmed", True),
        "trap": (wrong, "REVERT", "wrong_result", False),
    }
    assert [c.kind for c in host.memory("bob", kind="trap").conclusions] == ["trap"]


def test_a_snapshot_pages_through_own_sources_and_hides_those_of_others(host: Host) -> None:
    long = kernel(1) + "# " + "é" * (PAGE + 10)
    ticket = host.submit("ada", source=long, files={"help/more.py": "y = 1\n"}).ticket
    first = host.snapshot("ada", ticket)
    assert first.files == ["kernel.py", "help/more.py"] and first.next_offset == PAGE
    second = host.snapshot("ada", ticket, offset=PAGE)
    assert first.text + second.text == long and second.next_offset is None
    assert host.snapshot("ada", ticket, "help/more.py").text == "y = 1\n"
    with pytest.raises(NotAllowed, match="only while your directive is DRAFT"):
        host.snapshot("bob", ticket)
    with pytest.raises(BadRequest, match=r"it has kernel\.py"):
        host.snapshot("ada", ticket, "none.py")
    with pytest.raises(BadRequest, match="offset"):
        host.snapshot("ada", ticket, offset=-1)
    with pytest.raises(UnknownTicket):
        host.snapshot("ada", "s999")
    assert host.snapshot("bob", "branch").submission == "seed"


@pytest.mark.parametrize(("rule", "open_to_others"), [("always", True), ("never", False)])
def test_snapshots_obey_the_campaigns_setting(
    tmp_path: Path, rule: str, open_to_others: bool
) -> None:
    make_campaign(tmp_path / "c", snapshots=rule)
    host = Host.open(tmp_path / "c")
    host.register("ada")
    host.register("bob")
    ticket = host.submit("ada", source=kernel(1)).ticket
    if open_to_others:
        assert host.snapshot("bob", ticket).agent == "ada"
    else:
        with pytest.raises(NotAllowed, match="never in this campaign"):
            host.snapshot("bob", ticket)
    host.close()


def test_tools_before_the_brief_ask_for_it(folder: Path) -> None:
    host = Host.open(folder)
    for call in (host.lens, host.memory, host.board, host.snapshot):
        with pytest.raises(NotAllowed, match="get_brief first"):
            call("ada")
    host.close()


def test_lenses_outside_the_eligible_ones_are_not_shown(host: Host) -> None:
    own = host.lens("ada")
    assert own.name == host.brief("ada").state.lens and own.name in own.eligible
    assert host.lens("ada", own.eligible[-1]).name == own.eligible[-1]
    with pytest.raises(BadRequest, match="not eligible"):
        host.lens("ada", "../eligibility")


def test_a_dlpack_candidate_is_destination_passing_without_saying_so(host: Host) -> None:
    ticket = host.submit(
        "ada",
        source='#include <dlpack/dlpack.h>\nextern "C" int run(const DLTensor*, DLTensor*);\n',
        filename="kernel.cpp",
        binding="dlpack",
    )
    assert host.snapshot("ada", ticket.ticket).destination_passing_style


def test_a_cpp_candidate_that_says_no_binding_is_destination_passing_too(host: Host) -> None:
    ticket = host.submit(
        "ada",
        source='#include <dlpack/dlpack.h>\nextern "C" int run(const DLTensor*, DLTensor*);\n',
        filename="kernel.cpp",
    )
    assert host.snapshot("ada", ticket.ticket).destination_passing_style
