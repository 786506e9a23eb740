"""The skill text and the plugin: generated from one source, short, and about the tools there are."""

import json
from pathlib import Path
from typing import get_args

import pytest
import yaml
from server_campaigns import create

from kernelarc_guard.reasons import Verdict
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.gate import MAX_SIMILARITY
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.instructions import INSTRUCTIONS
from kernelarc_mcp.server import build_server
from kernelarc_mcp.skill import agents_text, generated, loop_text, skill_text
from kernelarc_mcp.views import Directive
from kernelarc_memory.conclusion import LESSON_CAP, SUMMARY_CAP

STEPS = ("Brief", "Lens", "Memory", "Hypothesis", "Write", "Submit", "Obey", "Conclude")


@pytest.mark.parametrize("path", generated())
def test_a_generated_file_is_what_the_source_makes_of_it(path: str) -> None:
    """Where this fails: `python -m kernelarc_mcp.skill`."""
    assert (data_dir("clients") / path).read_text(encoding="utf-8") == generated()[path]


def test_the_skill_is_short_and_tells_the_whole_loop_in_order() -> None:
    for text in (skill_text(), agents_text()):
        assert len(text.splitlines()) < 300
    places = [loop_text().index(f"**{step}.**") for step in STEPS]
    assert places == sorted(places)
    for word in (*get_args(Verdict), *get_args(Directive)):
        assert word in loop_text()
    assert f"at most {SUMMARY_CAP} characters" in loop_text()
    assert f"at most {LESSON_CAP};" in loop_text()


def test_how_much_a_draft_may_share_is_told_before_it_is_paid_for() -> None:
    most = f"{MAX_SIMILARITY * 100:.0f} %"
    reasons = Path(__file__).parents[2] / "docs" / "reasons.md"
    for text in (INSTRUCTIONS, skill_text(), reasons.read_text(encoding="utf-8")):
        assert most in text


def test_the_skills_front_matter_names_its_folder_and_says_when_to_use_it() -> None:
    _, front, body = skill_text().split("---\n", 2)
    about = yaml.safe_load(front)
    assert about["name"] == "kernelarc" and 40 < len(about["description"]) < 1024
    assert body.strip() == loop_text().strip()


@pytest.mark.anyio
async def test_every_tool_the_skill_names_exists(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = create(tmp_path_factory.mktemp("skill") / "campaign")
    host = Host.open(place.folder)
    tools = {
        tool.name for tool in await build_server(host, guard_python="x", agent="ada").list_tools()
    }
    host.close()
    named = {tool for tool in tools if f"`{tool}`" in loop_text()}
    assert tools - named == {"cancel_submission", "view_leaderboard"}
    assert all(tool in INSTRUCTIONS for tool in tools - {"cancel_submission"})


def test_the_plugins_server_takes_address_and_token_from_the_environment() -> None:
    files = generated()
    assert json.loads(files["claude-plugin/.claude-plugin/plugin.json"])["name"] == "kernelarc"
    server = json.loads(files["claude-plugin/.mcp.json"])["mcpServers"]["kernelarc"]
    assert server["headers"] == {"Authorization": "Bearer ${KERNELARC_TOKEN}"}
    assert server["type"] == "http" and server["timeout"] >= 60_000
