"""Submitting, waiting and cancelling through the tools."""

import anyio
import pytest
from mcp.server.subscriptions import ResourceUpdated
from server_campaigns import KERNEL, Place
from serving import ERAS, Era, answer_of, connected, refusal_of

from kernelarc_mcp import follow
from kernelarc_mcp.host.host import Host

pytestmark = pytest.mark.anyio


def uri_of(event: object) -> str:
    """Return the resource an event is about."""
    assert isinstance(event, ResourceUpdated)
    return event.uri


SUBMIT = {"source": KERNEL, "summary": "x + x", "destination_passing": False}


@pytest.mark.parametrize("era", ERAS)
async def test_a_waiting_call_reports_rising_progress_and_returns_a_ticket(
    place: Place, silent_guard: str, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "HEARTBEAT", 0.2)
    told: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with connected(Host.open(place.folder), "ada", silent_guard, era) as client:
        view = answer_of(
            await client.call_tool(
                "submit_candidate", SUBMIT | {"wait_seconds": 1.0}, progress_callback=tell
            )
        )
    assert view["state"] in ("queued", "judging")
    assert view["verdict"] is None
    assert view["charged"] is True
    assert view["ticket"] in view["next_step"]
    amounts = [done for done, _, _ in told]
    assert len(amounts) >= 3
    assert all(low < high for low, high in zip(amounts, amounts[1:], strict=False))
    assert all(message for _, _, message in told)


async def test_a_cut_off_call_leaves_its_submission_in_the_queue(
    place: Place, silent_guard: str
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        with anyio.move_on_after(0.5):
            await client.call_tool("submit_candidate", SUBMIT | {"request_id": "first"})
        again = await client.call_tool(
            "submit_candidate", SUBMIT | {"request_id": "first", "wait_seconds": 0}
        )
        view = answer_of(again)
        assert view["ticket"] == "s001"
        assert view["charged"] is False
        assert view["state_after"]["attempts_used"] == 1


async def test_a_verdict_ends_the_wait_of_another_call(place: Place, silent_guard: str) -> None:
    host = Host.open(place.folder)
    async with connected(host, "ada", silent_guard) as client:
        queued = await client.call_tool("submit_candidate", SUBMIT | {"wait_seconds": 0})
        ticket = answer_of(queued)["ticket"]
        seen: list[str] = []

        async def wait() -> None:
            view = await client.call_tool("wait_submission", {"ticket": ticket})
            seen.append(answer_of(view)["reason"])

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                # By another process's connection, as a second server would.
                other = Host.open(place.folder)
                other.cancel("ada", ticket)
                other.close()
        assert seen == ["cancelled"]


async def test_cancel_settles_what_is_queued_and_says_so_when_it_comes_too_late(
    place: Place, silent_guard: str
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        view = answer_of(await client.call_tool("submit_candidate", SUBMIT | {"wait_seconds": 0}))
        ticket = {"ticket": view["ticket"]}
        gone = answer_of(await client.call_tool("cancel_submission", ticket))
        assert (gone["verdict"], gone["reason"]) == ("REJECT", "cancelled")
        assert gone["state_after"]["attempts_used"] == 1
        assert gone["state_after"]["r"] == 0
        before = place.events()
        late = answer_of(await client.call_tool("cancel_submission", ticket))
        assert late["verdict"] == "REJECT"
        assert "Nothing was cancelled" in late["message"]
        assert place.events() == before


async def test_an_agent_that_does_what_it_is_told_never_makes_the_same_call_twice(
    place: Place, silent_guard: str
) -> None:
    """Gemini CLI ends an agent at the fifth call in a row with the same arguments."""
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        view = answer_of(await client.call_tool("submit_candidate", SUBMIT | {"wait_seconds": 0}))
        for turn in range(1, 7):
            said = f"Call wait_submission with ticket {view['ticket']} and turn {turn},"
            assert view["next_step"].startswith(said)
            waiting = {"ticket": view["ticket"], "turn": turn, "wait_seconds": 0}
            view = answer_of(await client.call_tool("wait_submission", waiting))


async def test_another_agents_ticket_is_refused_and_its_source_is_closed(
    place: Place, silent_guard: str
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as ada:
        view = answer_of(await ada.call_tool("submit_candidate", SUBMIT | {"wait_seconds": 0}))
        async with connected(Host.open(place.folder), "bob", silent_guard) as bob:
            answer_of(await bob.call_tool("get_brief", {}))
            before = place.events()
            ticket = {"ticket": view["ticket"]}
            for name, arguments in (
                ("wait_submission", ticket),
                ("cancel_submission", ticket),
                ("view_snapshot", {"submission": view["ticket"]}),
            ):
                assert "ada" in refusal_of(await bob.call_tool(name, arguments))
            conclusion = {"kind": "trap", "summary": "s", "lesson": "l"}
            text = refusal_of(
                await bob.call_tool("write_conclusion", conclusion | {"evidence": view["ticket"]})
            )
            assert "ada" in text
            assert place.events() == before


async def test_a_rejected_submission_is_stored_charged_and_answered_at_once(
    place: Place, silent_guard: str
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        with anyio.fail_after(5):
            view = answer_of(
                await client.call_tool("submit_candidate", SUBMIT | {"entry_point": "gone.py::run"})
            )
        assert (view["state"], view["verdict"]) == ("done", "REJECT")
        assert (view["stage"], view["reason"]) == ("envelope", "envelope_bad_entry")
        assert view["state_after"]["attempts_left"] == 3


async def test_a_language_that_is_not_here_is_refused_and_costs_nothing(
    place: Place, silent_guard: str
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        before = place.events()
        for language in ("rust", "triton"):
            sent = SUBMIT | {"language": language}
            text = refusal_of(await client.call_tool("submit_candidate", sent))
            assert "`language`: expected one of" in text and "cpp" in text
            assert f"got '{language}'" in text and "nothing was charged" in text
        assert place.events() == before


async def test_a_spent_budget_is_an_error_and_reading_stays_allowed(
    place: Place, silent_guard: str
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        rejected = SUBMIT | {"entry_point": "gone.py::run"}
        views = [answer_of(await client.call_tool("submit_candidate", rejected)) for _ in range(4)]
        assert views[-1]["state_after"]["directive"] == "STOP"
        before = place.events()
        assert "no attempt" in refusal_of(await client.call_tool("submit_candidate", rejected))
        assert place.events() == before
        answer_of(await client.call_tool("view_leaderboard", {}))


async def test_a_stranger_is_refused(place: Place, silent_guard: str) -> None:
    async with connected(Host.open(place.folder), "eve", silent_guard) as client:
        before = place.events()
        for name in ("get_brief", "view_snapshot", "read_memory"):
            assert "'eve'" in refusal_of(await client.call_tool(name, {}))
        assert place.events() == before


async def test_subscribers_hear_of_the_board_and_the_memory(
    place: Place, silent_guard: str
) -> None:
    uris = ["kernelarc://board", "kernelarc://memory"]
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        async with client.listen(resource_subscriptions=uris) as heard:
            rejected = SUBMIT | {"entry_point": "gone.py::run"}
            ticket = answer_of(await client.call_tool("submit_candidate", rejected))["ticket"]
            with anyio.fail_after(5):
                assert uri_of(await anext(aiter(heard))) == uris[0]
            trap = {"kind": "trap", "summary": "s", "lesson": "l", "evidence": ticket}
            answer_of(await client.call_tool("write_conclusion", trap))
            with anyio.fail_after(5):
                async for event in heard:
                    if uri_of(event) == uris[1]:
                        break
