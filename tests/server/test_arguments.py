"""Bad calls: every tool answers clearly, stores nothing and goes on serving."""

import json
from typing import Any

import pytest
from server_campaigns import KERNEL, Place
from serving import ERAS, Era, answer_of, connected, refusal_of, text_of

from kernelarc_mcp.host.envelope import MAX_BYTES, MAX_FILES
from kernelarc_mcp.host.host import Host

pytestmark = pytest.mark.anyio

LONG = "x" * (MAX_BYTES + 1)
MANY = {f"f{n}.py": "x = 1" for n in range(MAX_FILES)}
SUBMIT = {"source": KERNEL, "summary": "x + x"}
CONCLUDE = {"kind": "trap", "summary": "s", "lesson": "l", "evidence": "s001"}
BAD: list[tuple[str, dict[str, Any], str]] = [
    # missing
    ("submit_candidate", {"summary": "no source"}, "`source` is missing"),
    ("submit_candidate", {"source": KERNEL}, "`summary` is missing"),
    ("wait_submission", {}, "`ticket` is missing"),
    ("cancel_submission", {}, "`ticket` is missing"),
    ("write_conclusion", {"kind": "win"}, "`summary` is missing"),
    # empty where something is needed
    ("submit_candidate", SUBMIT | {"source": ""}, "`source`: expected a string (1 to 524288"),
    ("wait_submission", {"ticket": ""}, "`ticket`: expected a string (1 to 100 characters)"),
    # wrong type
    ("get_strategy_lens", {"name": 7}, "`name`: expected a string"),
    ("read_memory", {"limit": "many"}, "`limit`: expected an integer (1 to 200), got a string"),
    ("read_memory", {"limit": True}, "`limit`: expected an integer (1 to 200), got true"),
    ("read_memory", {"kind": "both"}, "`kind`: expected one of '', 'win', 'trap'"),
    ("submit_candidate", SUBMIT | {"source": {"a": 1}}, "`source`: expected a string"),
    ("submit_candidate", SUBMIT | {"source": None}, "got null"),
    (
        "submit_candidate",
        SUBMIT | {"files": "a.py"},
        "`files`: expected an object of at most 31 whose values",
    ),
    ("submit_candidate", SUBMIT | {"files": {"a.py": 1}}, "`files['a.py']`: expected a string"),
    ("submit_candidate", SUBMIT | {"cflags": "-O3"}, "`cflags`: expected a list of at most 50"),
    ("submit_candidate", SUBMIT | {"cflags": [3]}, "`cflags[0]`: expected a string"),
    ("submit_candidate", SUBMIT | {"destination_passing": "perhaps"}, "expected true or false"),
    ("submit_candidate", SUBMIT | {"binding": "ctypes"}, "`binding`: expected one of"),
    ("submit_candidate", SUBMIT | {"tokens": 1.5}, "`tokens`: expected an integer"),
    ("submit_candidate", SUBMIT | {"cost": -1}, "`cost`: expected a number (0 to"),
    ("wait_submission", {"ticket": ["s001"]}, "`ticket`: expected a string"),
    ("cancel_submission", {"ticket": 1}, "`ticket`: expected a string"),
    ("write_conclusion", CONCLUDE | {"kind": "hunch"}, "`kind`: expected one of 'win', 'trap'"),
    ("view_snapshot", {"offset": -1}, "`offset`: expected an integer (0 to"),
    ("view_snapshot", {"submission": 1}, "`submission`: expected a string"),
    # oversized
    ("get_strategy_lens", {"name": "n" * 101}, "`name`: expected a string (at most 100"),
    ("read_memory", {"limit": 201}, "`limit`: expected an integer (1 to 200), got the number 201"),
    ("submit_candidate", SUBMIT | {"source": LONG}, "got a string of 524289 characters"),
    ("submit_candidate", SUBMIT | {"files": {"a": LONG}}, "got a string of 524289 characters"),
    ("submit_candidate", SUBMIT | {"files": MANY}, "`files`: expected an object of at most 31"),
    ("submit_candidate", SUBMIT | {"summary": "s" * 301}, "`summary`: expected a string (at most"),
    ("submit_candidate", SUBMIT | {"wait_seconds": 51}, "`wait_seconds`: expected a number (0 to"),
    ("submit_candidate", SUBMIT | {"tokens": 10**400}, "`tokens`: expected an integer"),
    ("wait_submission", {"ticket": "t" * 101}, "`ticket`: expected a string (1 to 100"),
    ("write_conclusion", CONCLUDE | {"summary": "s" * 20_001}, "`summary`: expected a string"),
    ("view_snapshot", {"path": "p" * 241}, "`path`: expected a string (at most 240"),
    # not UTF-8
    ("get_strategy_lens", {"name": "\ud800"}, "`name` is not valid UTF-8"),
    ("submit_candidate", SUBMIT | {"source": "ok\n\udc80"}, "character 4 (line 2) is U+DC80"),
    ("submit_candidate", SUBMIT | {"source": "caf\ufffd"}, "`source` is not valid UTF-8"),
    ("submit_candidate", SUBMIT | {"files": {"\ufffd": "x"}}, "`files` is not valid UTF-8"),
    ("submit_candidate", SUBMIT | {"files": {"a": "\ud800"}}, "`files['a']` is not valid UTF-8"),
    ("submit_candidate", SUBMIT | {"cflags": ["\ud800"]}, "`cflags[0]` is not valid UTF-8"),
    ("wait_submission", {"ticket": "\ud800"}, "`ticket` is not valid UTF-8"),
    ("cancel_submission", {"ticket": "\ud800"}, "`ticket` is not valid UTF-8"),
    ("write_conclusion", CONCLUDE | {"lesson": "\ud800"}, "`lesson` is not valid UTF-8"),
    ("view_snapshot", {"path": "\ud800"}, "`path` is not valid UTF-8"),
    # unknown
    ("get_strategy_lens", {"name": "astrology"}, "astrology"),
    ("wait_submission", {"ticket": "s999"}, "s999"),
    ("cancel_submission", {"ticket": "s999"}, "s999"),
    ("write_conclusion", CONCLUDE | {"evidence": "s999"}, "s999"),
    ("view_snapshot", {"submission": "s999"}, "s999"),
    ("view_snapshot", {"path": "nowhere.py"}, "nowhere.py"),
    ("sing", {}, "Unknown tool"),
]


@pytest.mark.parametrize("era", ERAS)
async def test_a_bad_call_is_answered_clearly_and_stores_nothing(
    place: Place, silent_guard: str, era: Era
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard, era) as client:
        answer_of(await client.call_tool("get_brief", {}))
        before = place.events()
        for name, arguments, expected in BAD:
            text = refusal_of(await client.call_tool(name, arguments))
            assert expected in text, text
            assert len(text) < 500, text[:500]
            assert "pydantic" not in text
        assert place.events() == before
        answer_of(await client.call_tool("submit_candidate", SUBMIT | {"wait_seconds": 0}))


async def test_a_conclusion_over_its_caps_is_refused_with_cap_and_length(
    place: Place, silent_guard: str
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        wait = {"wait_seconds": 0}
        rejected = SUBMIT | {"entry_point": "gone.py::run"} | wait
        ticket = answer_of(await client.call_tool("submit_candidate", rejected))["ticket"]
        before = place.events()
        for field, cap in (("summary", 160), ("lesson", 1200)):
            over = CONCLUDE | {"evidence": ticket, field: "y" * (cap + 1)}
            text = refusal_of(await client.call_tool("write_conclusion", over))
            assert str(cap) in text
            assert str(cap + 1) in text
        assert place.events() == before
        fits = CONCLUDE | {"evidence": ticket, "summary": "y" * 160, "lesson": "z" * 1200}
        answer_of(await client.call_tool("write_conclusion", fits))


async def test_arguments_a_tool_does_not_have_are_ignored_and_named_in_its_answer(
    place: Place, silent_guard: str
) -> None:
    stranger = {"wait_for_previous": True, "note": "\ud800", "limits": 10**400}
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        for name, arguments in (
            ("get_brief", {}),
            ("get_strategy_lens", {}),
            ("read_memory", {}),
            ("submit_candidate", SUBMIT | {"wait_seconds": 0}),
            ("wait_submission", {"ticket": "s001", "wait_seconds": 0}),
            ("cancel_submission", {"ticket": "s001"}),
            ("write_conclusion", CONCLUDE),
            ("view_leaderboard", {}),
            ("view_snapshot", {}),
        ):
            result = await client.call_tool(name, {**arguments, **stranger})
            note = "Ignored, because this tool has no such argument: 'note', 'limits'. "
            assert answer_of(result)["next_step"].startswith(note)
            assert json.loads(text_of(result)) == result.structured_content


async def test_what_clients_add_to_every_call_is_ignored_without_a_word(
    place: Place, silent_guard: str
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        told = [
            answer_of(await client.call_tool("get_brief", added))["next_step"]
            for added in ({}, {"wait_for_previous": True})
        ]
    assert told[0] == told[1]


async def test_a_misspelt_argument_is_named(place: Place, silent_guard: str) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        text = refusal_of(await client.call_tool("wait_submission", {"tiket": "s001"}))
        assert "`ticket` is missing" in text
        assert "'tiket'" in text


async def test_source_that_happens_to_be_json_stays_text(place: Place, silent_guard: str) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        for source in ('{"a": 1}', "null", "12"):
            sent = SUBMIT | {"source": source, "entry_point": "gone.py::run", "wait_seconds": 0}
            ticket = answer_of(await client.call_tool("submit_candidate", sent))["ticket"]
            seen = await client.call_tool("view_snapshot", {"submission": ticket})
            assert answer_of(seen)["text"] == source
