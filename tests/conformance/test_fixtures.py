"""The suite's fixtures answer the SDK's own client, where there is no Node to run the suite."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from conformance.__main__ import with_fixtures
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.types import ElicitRequestParams, ElicitResult, ListRootsResult
from server_campaigns import create
from serving import ERAS, Era, refusal_of, text_of

from kernelarc_mcp.host.host import Host

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, as the servers do."""
    return "asyncio"


@asynccontextmanager
async def fixtures(tmp_path: Path, era: Era) -> AsyncIterator[Client]:
    """Yield a client that answers every question, of a server with the fixtures."""

    async def fill(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada", "color": "red", "ok": True})

    async def roots(context: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=[])

    guard = tmp_path / "silent-guard"
    guard.write_text("#!/bin/sh\nexec cat > /dev/null\n")
    guard.chmod(0o755)
    host = Host.open(create(tmp_path / "campaign").folder)
    server = with_fixtures(host, guard_python=str(guard), agent="ada")
    async with Client(
        server, mode=era, elicitation_callback=fill, list_roots_callback=roots
    ) as client:
        yield client


@pytest.mark.parametrize("era", ERAS)
async def test_fixed_contents_progress_and_faults_pass_the_products_boundary(
    tmp_path: Path, era: Era
) -> None:
    told: list[float] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with fixtures(tmp_path, era) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[0] == "get_brief" and "test_simple_text" in names
        mixed = await client.call_tool("test_multiple_content_types", {})
        assert [block.type for block in mixed.content] == ["text", "image", "resource"]
        await client.call_tool("test_tool_with_progress", {}, progress_callback=tell)
        assert told == sorted(set(told)) and len(told) == 3
        failed = refusal_of(await client.call_tool("test_error_handling", {}))
        assert "intentionally returns an error" in failed
        with pytest.raises(MCPError):
            await client.call_tool("test_missing_capability", {})


async def test_questions_in_the_middle_of_a_call_are_answered_up_to_2025_11_25(
    tmp_path: Path,
) -> None:
    async with fixtures(tmp_path, "legacy") as client:
        asked = await client.call_tool("test_elicitation", {"message": "Who?"})
        assert "action=accept" in text_of(asked)


async def test_questions_as_answers_go_on_over_rounds_on_2026_07_28(tmp_path: Path) -> None:
    async with fixtures(tmp_path, "auto") as client:
        steps = await client.call_tool("test_input_required_result_multi_round", {})
        assert text_of(steps) == "Both steps are answered."
        state = await client.call_tool("test_input_required_result_request_state", {})
        assert "state-ok" in text_of(state)
