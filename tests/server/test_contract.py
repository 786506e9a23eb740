"""What clients rely on: the tools, their order, their schemas and their answers, on both eras."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from mcp import MCPError
from mcp.types import TextResourceContents
from server_campaigns import KERNEL, Place, create
from serving import ERAS, Era, answer_of, connected, text_of

from kernelarc_guard.model import Described, Model
from kernelarc_mcp.follow import MAX_WAIT
from kernelarc_mcp.host.guides import pages, templates
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.lenses import lens_names
from kernelarc_mcp.instructions import INSTRUCTIONS
from kernelarc_mcp.views import Answer

pytestmark = pytest.mark.anyio

ORDER = [
    "get_brief",
    "get_strategy_lens",
    "read_memory",
    "submit_candidate",
    "wait_submission",
    "cancel_submission",
    "profile_candidate",
    "write_conclusion",
    "view_leaderboard",
    "view_snapshot",
]


@pytest.mark.parametrize("era", ERAS)
async def test_the_tools_come_in_the_order_of_use_with_schemas_every_client_reads(
    place: Place, silent_guard: str, era: Era
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard, era) as client:
        assert client.protocol_version == ("2026-07-28" if era == "auto" else "2025-11-25")
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ORDER
    for tool in tools:
        given, returned = json.dumps(tool.input_schema), json.dumps(tool.output_schema)
        for unreadable in ('"$ref"', '"$defs"', '"anyOf"', '"prefixItems"', '"title": "'):
            assert unreadable not in given, tool.name
        assert '"$ref"' not in returned
        assert all(isinstance(p["type"], str) for p in tool.input_schema["properties"].values())
        assert tool.output_schema is not None
        assert "next_step" in tool.output_schema["properties"], tool.name
        assert tool.description is not None
        assert 40 < len(tool.description) < 1000
        assert tool.title
        assert tool.annotations is not None
        assert len(f"kernelarc{tool.name}") <= 58


def models_in(kind: object) -> Iterator[type[Model]]:
    for part in get_args(kind):
        yield from models_in(part)
    if isinstance(kind, type) and issubclass(kind, Model):
        yield kind
        for known in kind.model_fields.values():
            yield from models_in(known.annotation)


def test_whatever_a_tool_answers_has_its_fields_described() -> None:
    found = {model for answer in Answer.__subclasses__() for model in models_in(answer)}
    assert len(found) > 20
    assert [model.__name__ for model in found if not issubclass(model, Described)] == []


def test_the_order_of_the_tools_stands_in_the_first_500_characters_of_the_instructions() -> None:
    assert len(INSTRUCTIONS) < 2000
    start = INSTRUCTIONS[:500]
    named = [name for name in ORDER if name not in ("cancel_submission",)]
    positions = [start.index(name) for name in named]
    assert positions == sorted(positions)
    assert MAX_WAIT < 60


@pytest.mark.parametrize("era", ERAS)
async def test_text_and_structured_content_are_the_same_json(
    place: Place, silent_guard: str, era: Era
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard, era) as client:
        submit = {"source": KERNEL, "summary": "x + x", "wait_seconds": 0}
        for name, arguments in (
            ("get_brief", {}),
            ("get_strategy_lens", {}),
            ("read_memory", {}),
            ("submit_candidate", submit),
            ("view_leaderboard", {}),
            ("view_snapshot", {}),
        ):
            result = await client.call_tool(name, arguments)
            assert json.loads(text_of(result)) == answer_of(result), name
            assert answer_of(result)["next_step"]


async def test_each_resource_is_what_its_tool_returns(place: Place, silent_guard: str) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        brief = answer_of(await client.call_tool("get_brief", {}))
        submit = {"source": KERNEL, "summary": "x + x", "wait_seconds": 0}
        ticket = answer_of(await client.call_tool("submit_candidate", submit))["ticket"]
        lens = brief["state"]["lens"]
        pairs = {
            "kernelarc://problem": ("get_brief", {}),
            f"kernelarc://lens/{lens}": ("get_strategy_lens", {"name": lens}),
            "kernelarc://board": ("view_leaderboard", {}),
            "kernelarc://memory": ("read_memory", {}),
            f"kernelarc://submission/{ticket}": (
                "wait_submission",
                {"ticket": ticket, "wait_seconds": 0},
            ),
        }
        for uri, (tool, arguments) in pairs.items():
            (content,) = (await client.read_resource(uri)).contents
            assert isinstance(content, TextResourceContents)
            expected = answer_of(await client.call_tool(tool, dict(arguments)))
            assert json.loads(content.text) == expected, uri
        listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
        assert {uri for uri in listed if "/" not in uri.removeprefix("kernelarc://")} == {
            "kernelarc://problem",
            "kernelarc://board",
            "kernelarc://memory",
            "kernelarc://guide",
            "kernelarc://verdicts",
            "kernelarc://interface",
        }
        templates = (await client.list_resource_templates()).resource_templates
        assert {t.uri_template for t in templates} == {
            "kernelarc://lens/{name}",
            "kernelarc://submission/{ticket}",
            "kernelarc://template/{name}",
            "kernelarc://curriculum/{course}",
            "kernelarc://curriculum/{course}/{page}",
        }


async def test_what_is_listed_to_read_is_short_enough_for_every_client_and_its_links_lead_on(
    place: Place, silent_guard: str
) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        listed = {str(one.uri): one for one in (await client.list_resources()).resources}
        guides = ("kernelarc://curriculum/", "kernelarc://template/", "kernelarc://verdicts")
        expected = {uri for uri in listed if uri.startswith(guides)}
        known = {page.uri for page in pages()} | {one.uri for one in templates().values()}
        assert 5 < len(expected) < len(known)
        (index,) = (await client.read_resource("kernelarc://guide")).contents
        assert isinstance(index, TextResourceContents)
        for uri in expected:
            (content,) = (await client.read_resource(uri)).contents
            assert isinstance(content, TextResourceContents)
            assert 200 < len(content.text) < 10_000, uri
            assert listed[uri].title and listed[uri].description, uri
            onward = [
                u for u in re.findall(r"`(kernelarc://[^`]+)`", content.text) if "..." not in u
            ]
            # A link may lead to what is not listed here.
            assert set(onward) <= set(listed) | known, uri
            # From the index on, links alone lead to everything.
            assert uri in index.text or uri.startswith("kernelarc://curriculum/")
        assert len(index.text) < 10_000
        for uri in known:
            (content,) = (await client.read_resource(uri)).contents
            assert isinstance(content, TextResourceContents) and content.text, uri
        with pytest.raises(MCPError, match="there is no kernelarc://template/nothing"):
            await client.read_resource("kernelarc://template/nothing")


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
async def test_a_lens_fits_an_answer_and_its_templates_can_be_read(
    tmp_path: Path, silent_guard: str, device: str
) -> None:
    folder = create(tmp_path / "campaign", device=device, lenses=lens_names()).folder
    async with connected(Host.open(folder), "ada", silent_guard) as client:
        brief = answer_of(await client.call_tool("get_brief", {}))
        for name in lens_names():
            result = await client.call_tool("get_strategy_lens", {"name": name})
            assert len(text_of(result)) < 10_000, name
            lens = answer_of(result)
            for link in [*lens["templates"], *brief["reading"]]:
                assert (await client.read_resource(link["uri"])).contents


async def test_the_prompts_start_an_agent(place: Place, silent_guard: str) -> None:
    async with connected(Host.open(place.folder), "ada", silent_guard) as client:
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["optimise", "draft"]
        for name, argument in (("optimise", {"attempts": "7"}), ("draft", {"idea": "a tree"})):
            (message,) = (await client.get_prompt(name, argument)).messages
            shown = message.content.model_dump()["text"]
            assert "get_brief" in shown
            assert next(iter(argument.values())) in shown
