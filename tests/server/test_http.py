"""A real HTTP server process: tokens, both eras, careless bytes, and how it ends."""

import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from anyio import to_thread
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from server_campaigns import KERNEL, Place
from server_process import call, http_server
from serving import ERAS, Era, answer_of, refusal_of

from kernelarc_mcp.host.host import Host

pytestmark = pytest.mark.anyio

HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def url(place: Place, silent_guard: str) -> Iterator[str]:
    """Return the URL of a server of `place`."""
    with http_server(place.folder, silent_guard) as (_, found):
        yield found


@asynccontextmanager
async def client_of(url: str, token: str, era: Era = "auto") -> AsyncIterator[Client]:
    """Yield a client that sends a bearer token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client


@pytest.mark.parametrize("era", ERAS)
async def test_each_token_is_its_agent(place: Place, url: str, era: Era) -> None:
    async with (
        client_of(url, place.tokens["ada"], era) as ada,
        client_of(url, place.tokens["bob"], era) as bob,
    ):
        for name, client in (("ada", ada), ("bob", bob)):
            brief = answer_of(await client.call_tool("get_brief", {}))
            assert brief["state"]["agent"] == name
        submit = {"source": KERNEL, "summary": "x + x", "wait_seconds": 0}
        ticket = answer_of(await ada.call_tool("submit_candidate", submit))["ticket"]
        answer_of(await ada.call_tool("wait_submission", {"ticket": ticket, "wait_seconds": 0}))
        assert "ada" in refusal_of(await bob.call_tool("wait_submission", {"ticket": ticket}))


async def test_without_a_valid_token_nothing_is_answered(place: Place, url: str) -> None:
    host = Host.open(place.folder)
    spare = host.add_agent("bob")
    wrong = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {spare}"}]
    async with httpx2.AsyncClient() as http:
        for headers in wrong:
            refused = await http.post(url, headers=HEADERS | headers, json=PING)
            assert refused.status_code == 401
            assert "Authorization: Bearer" in refused.json()["error_description"]
            assert "resource_metadata" not in refused.headers.get("www-authenticate", "")
        host.revoke("bob")
        revoked = {"Authorization": f"Bearer {spare}"}
        assert (await http.post(url, headers=HEADERS | revoked, json=PING)).status_code == 401
        metadata = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        assert (await http.get(metadata)).status_code == 404
        health = await http.get(url.replace("/mcp", "/health"))
        assert health.json()["status"] == "ok"
    host.close()


async def test_careless_bytes_are_refused_and_the_server_goes_on(place: Place, url: str) -> None:
    bearer = HEADERS | {"Authorization": f"Bearer {place.tokens['ada']}"}
    async with client_of(url, place.tokens["ada"]) as client:
        answer_of(await client.call_tool("get_brief", {}))
        before = place.events()
        modern = bearer | {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "submit_candidate",
        }
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        }
        line = call(1, "submit_candidate", '{"summary": "s", "source": "caf@"}')
        line = line.replace(b'"params": {', b'"params": {"_meta": %s, ' % json.dumps(meta).encode())
        async with httpx2.AsyncClient(timeout=30) as http:
            for bad in (b"\xe9", rb"\ud800"):
                sent = line.replace(b"@", bad)
                answered = await http.post(url, headers=modern, content=sent)
                assert "`source` is not valid UTF-8" in answered.text, answered.text
            huge = line.replace(b"@", b"x" * 5_000_000)
            assert (await http.post(url, headers=modern, content=huge)).status_code == 413
            assert (await http.post(url, headers=modern, content=b"{")).status_code == 400
            stranger = modern | {"Host": "evil.example"}
            assert (await http.post(url, headers=stranger, content=line)).status_code == 421
            origin = modern | {"Origin": "http://evil.example"}
            assert (await http.post(url, headers=origin, content=line)).status_code == 403
        assert place.events() == before
        answer_of(await client.call_tool("view_leaderboard", {}))


async def test_a_stop_does_not_wait_for_listening_clients(place: Place, silent_guard: str) -> None:
    with http_server(place.folder, silent_guard) as (process, url):
        # The client is cut off by design; what it raises is not this test's matter.
        with suppress(BaseExceptionGroup):
            async with (
                client_of(url, place.tokens["ada"]) as client,
                client.listen(resource_subscriptions=["kernelarc://board"]),
            ):
                process.terminate()
                await to_thread.run_sync(process.wait, 10)
        assert process.returncode == -signal.SIGTERM


def test_ctrl_c_that_a_shell_had_its_background_processes_ignore_ends_with_its_status_too(
    place: Place, silent_guard: str
) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with http_server(place.folder, silent_guard) as (process, url):
            # Before it serves nothing listens to a signal that is ignored.
            assert httpx2.get(url.replace("/mcp", "/health"), timeout=60).status_code == 200
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 128 + signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)


async def test_the_serving_process_maps_no_torch(place: Place, silent_guard: str) -> None:
    with http_server(place.folder, silent_guard) as (process, url):
        async with client_of(url, place.tokens["ada"]) as client:
            answer_of(await client.call_tool("get_brief", {}))
            submit = {"source": KERNEL, "summary": "x + x", "entry_point": "gone.py::run"}
            answer_of(await client.call_tool("submit_candidate", submit))
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        for heavy in ("torch", "cupy", "libcuda"):
            assert heavy not in maps
