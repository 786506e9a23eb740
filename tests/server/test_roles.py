"""What viewers and admins may do over HTTP, on a real server process."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from host_places import silent_guard
from http_door import ACCEPT, PATIENCE, Door, door, initialize, modern, tool_call
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from server_campaigns import create
from serving import ERAS, Era, answer_of, refusal_of

from kernelarc_mcp.host.host import Host

pytestmark = pytest.mark.anyio
MARK = "only_for_its_agent"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Return a server of a campaign with a submission of ada's, a viewer and an admin."""
    folder = tmp_path_factory.mktemp("roles")
    guard = silent_guard(folder)
    place = create(folder / "campaign")
    host = Host.open(place.folder)
    host.register("ada")
    source = f"# {MARK}\n"
    ticket, _ = host.submit("ada", source=source, summary="s", language="fortran")
    host.conclude("ada", "trap", "no fortran", "it is not judged here", ticket)
    # Named like an agent: the names of the roles are apart.
    place.tokens["viewer"] = host.issue_token("ada", "viewer")
    place.tokens["admin"] = host.issue_token("root", "admin")
    host.close()
    with door(place, guard) as opened:
        yield opened


@asynccontextmanager
async def client_of(here: Door, holder: str, era: Era) -> AsyncIterator[Client]:
    """Yield a client with a holder's token."""
    headers = {"Authorization": f"Bearer {here.place.tokens[holder]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(here.url, http_client=http), mode=era) as client,
    ):
        yield client


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("holder", ["viewer", "admin"])
async def test_who_takes_no_part_reads_and_does_nothing_else(
    here: Door, holder: str, era: Era
) -> None:
    before = here.place.events()
    async with client_of(here, holder, era) as client:
        shown: list[str] = []

        async def reads(tool: str, **arguments: object) -> dict[str, object]:
            result = await client.call_tool(tool, arguments)
            shown.append(str(answer_of(result)))
            return answer_of(result)

        board = await reads("view_leaderboard")
        assert board["attempts_used"] == 1
        memory = await reads("read_memory")
        assert memory["shown"] == 1
        (lens, *_) = answer_of(await client.call_tool("view_leaderboard", {}))["lenses"]
        assert (await reads("get_strategy_lens", name=lens["lens"]))["name"] == lens["lens"]
        verdict = await reads("wait_submission", ticket="s001", wait_seconds=0)
        assert (verdict["verdict"], verdict["reason"]) == ("REJECT", "envelope_bad_language")
        assert "only read" in str(verdict["next_step"])
        assert (await reads("view_snapshot", submission="seed"))["submission"] == "seed"
        for uri in ("kernelarc://board", "kernelarc://memory", "kernelarc://submission/s001"):
            (content,) = (await client.read_resource(uri)).contents
            shown.append(str(content))
        assert not [text for text in shown if MARK in text or str(here.place.folder) in text]

        conclusion = {"kind": "trap", "summary": "s", "lesson": "l", "evidence": "s001"}
        for tool, arguments in (
            ("get_brief", {}),
            ("submit_candidate", {"source": "x", "summary": "s"}),
            ("cancel_submission", {"ticket": "s001"}),
            ("profile_candidate", {"submission": "s001"}),
            ("write_conclusion", conclusion),
        ):
            assert "only reads" in refusal_of(await client.call_tool(tool, arguments)), tool
        refused = refusal_of(await client.call_tool("view_snapshot", {"submission": "s001"}))
        assert "open to agents only" in refused
        for tool, arguments in (
            ("get_strategy_lens", {}),
            ("wait_submission", {"ticket": "s999"}),
            ("view_snapshot", {"submission": "s999"}),
        ):
            assert refusal_of(await client.call_tool(tool, arguments))
        with pytest.raises(MCPError, match="only reads"):
            await client.read_resource("kernelarc://problem")
    assert here.place.events() == before


def test_only_an_admin_manages_tokens(here: Door) -> None:
    tokens = f"{here.base}/manage/tokens"
    with httpx2.Client(timeout=PATIENCE) as http:
        admin = here.bearer("admin")
        for holder in ("ada", "viewer"):
            for method, path in (("GET", tokens), ("POST", tokens), ("DELETE", f"{tokens}/x")):
                answered = http.request(method, path, headers=here.bearer(holder))
                assert answered.status_code == 403, (holder, method)
                assert answered.json()["error"] == "insufficient_scope"
        listed = http.get(tokens, headers=admin)
        assert {(row["name"], row["role"]) for row in listed.json()} >= {
            ("ada", "agent"),
            ("ada", "viewer"),
            ("root", "admin"),
        }
        for token in here.place.tokens.values():
            assert token not in listed.text

        new = {"role": "agent", "name": "eve", "attempts": 3}
        issued = http.post(tokens, headers=admin, json=new)
        assert issued.status_code == 201
        eve = ACCEPT | {"Authorization": f"Bearer {issued.json()['token']}"}
        asked = http.post(
            here.url, headers=modern(eve, "get_brief"), json=tool_call({}, "get_brief")
        )
        brief = asked.json()["result"]["structuredContent"]
        assert (brief["state"]["agent"], brief["state"]["attempts_left"]) == ("eve", 3)
        (row,) = [r for r in http.get(tokens, headers=admin).json() if r["name"] == "eve"]
        assert http.delete(f"{tokens}/{row['id']}", headers=admin).status_code == 204
        assert http.post(here.url, headers=eve, json=tool_call({})).status_code == 401
        assert http.delete(f"{tokens}/{row['id']}", headers=admin).status_code == 404

        for wrong, said in (
            ({"role": "king", "name": "eve"}, "role"),
            ({"role": "viewer", "name": "a/b"}, "name"),
            ({"role": "viewer", "name": "eve", "attempts": 1}, "attempts"),
            ({"role": "agent", "name": "newcomer"}, "attempts"),
            ({"role": "viewer"}, "name"),
            ({"role": "viewer", "name": "eve", "more": 1}, "more"),
        ):
            refused = http.post(tokens, headers=admin, json=wrong)
            assert refused.status_code == 400, wrong
            assert said in refused.json()["error"], wrong
        assert http.post(tokens, headers=admin, content=b"{").status_code == 400


def test_the_holders_of_one_name_share_nothing(here: Door) -> None:
    # The viewer called ada has no access to the session of the agent called ada.
    with httpx2.Client(timeout=PATIENCE) as http:
        opened = http.post(here.url, headers=here.bearer("ada"), json=initialize())
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        viewer = here.bearer("viewer") | session
        assert http.post(here.url, headers=viewer, json=ping).status_code == 404
