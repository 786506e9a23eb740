"""A campaign on a CPU speaks of no GPU, in anything that an agent reads."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_places import make_problem, make_settings

from kernelarc_mcp.host.fitting import fitting_pages, fitting_templates
from kernelarc_mcp.host.glossary import verdicts_text
from kernelarc_mcp.host.guides import pages
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.interface import interface_text
from kernelarc_mcp.host.lenses import lens_names
from kernelarc_mcp.host.wording import worded
from kernelarc_mcp.instructions import INSTRUCTIONS
from kernelarc_mcp.resources import index_text
from kernelarc_mcp.tools import (
    Desk,
    ProfilingTools,
    ReadingTools,
    SubmittingTools,
    tools_in_order,
)

FOREIGN = re.compile(
    r"cuda(?!_cflags)|\bGPU|nvcc|nvidia|triton|\bwarps?\b|tensor core|multiprocessor|shared memory"
    r"|hopper|blackwell|\bncu\b|\bSASS\b|\bPTX\b|H[12]00|WGMMA|\bTMA\b|</?(cpu|cuda)",
    re.IGNORECASE,
)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    lenses = lens_names()
    Host.create(tmp_path / "campaign", make_settings(lenses=lenses), make_problem(), None)
    opened = Host.open(tmp_path / "campaign")
    yield opened
    opened.close()


async def _nothing() -> None: ...


def _tools(host: Host) -> list[str]:
    desk = Desk(host=host, launched_as="ada", notify=_nothing)
    tools = tools_in_order(ReadingTools(desk), SubmittingTools(desk), ProfilingTools(desk), "cpu")
    return [f"{one.name}: {one.description} {json.dumps(one.parameters)}" for one in tools]


def test_nothing_that_an_agent_reads_of_a_cpus_campaign_speaks_of_a_gpu(host: Host) -> None:
    settings, definition = host.campaign.settings, host.campaign.problem.definition
    brief = host.brief("ada")
    courses, patterns = fitting_pages("softmax", "cpu"), fitting_templates("softmax", "cpu")
    texts = [
        INSTRUCTIONS,
        brief.model_dump_json(),
        interface_text(definition, tuple(brief.languages)),
        verdicts_text(settings),
        index_text(courses, patterns),
        *(host.lens("ada", name).model_dump_json() for name in lens_names()),
        *(page.text for page in courses),
        *(one.text for one in patterns),
        *_tools(host),
    ]
    found = [
        text[max(0, m.start() - 60) : m.end() + 40]
        for text in texts
        for m in FOREIGN.finditer(text)
    ]
    assert found == []


def test_each_backend_reads_its_own_pages_in_its_own_words() -> None:
    everywhere, cpu, cuda = (
        [page for page in pages(backend) if page.course == "memory-bound"]
        for backend in (None, "cpu", "cuda")
    )
    assert [page.name for page in cpu] == ["", "count-bytes", "on-a-cpu"]
    assert len(cuda) == 7 and len(everywhere) == 8
    assert "on-a-cpu" not in cuda[0].text and "access" not in cpu[0].text
    assert cpu[2].uri in cpu[1].text, "each page leads to the next one that there is"
    assert not any("<cpu" in page.text or "<cuda>" in page.text for page in (*cpu, *cuda))
    assert worded("a <cpu>b</cpu><cuda>c</cuda>", "cuda") == "a c"
