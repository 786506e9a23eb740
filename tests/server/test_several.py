"""Several campaigns in one real server process: each its own tokens, attempts and faults."""

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from command_line import Run
from host_places import make_campaign, planned, scripted_guard
from http_door import ACCEPT, PATIENCE, modern, tool_call, until
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from server_campaigns import Place as Made
from server_campaigns import create
from serving import answer_of

from kernelarc_mcp.host.election import Seat
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.http import Rules
from kernelarc_mcp.server import build_server
from kernelarc_mcp.several.places import Place, is_several, places_of
from kernelarc_mcp.several.served import Opening, ServedCampaign
from kernelarc_mcp.web.connections import Connections
from kernelarc_mcp.web.tallies import Tallies

pytestmark = pytest.mark.anyio

SERVED = ("left", "right", "torn", "gone")
BROKEN = "garbage"
PATHS = ("/mcp", "/health", "/metrics", "/manage/tokens", "/dashboard/data", "/nothing")


@dataclass
class Server:
    """A server process of several campaigns."""

    base: str
    process: subprocess.Popen[str]
    folders: dict[str, Path]
    tokens: dict[str, dict[str, str]]

    def bearer(self, campaign: str, agent: str = "ada") -> dict[str, str]:
        """Return the headers of an agent's requests."""
        return ACCEPT | {"Authorization": f"Bearer {self.tokens[campaign][agent]}"}

    def get(self, path: str, campaign: str = "") -> httpx2.Response:
        """Get a path with ada's token of a campaign, or without any."""
        headers = self.bearer(campaign) if campaign else {}
        return httpx2.get(self.base + path, headers=headers, timeout=PATIENCE)

    def board(self, campaign: str, whose: str = "") -> httpx2.Response:
        """Ask a campaign for its board, with ada's token of it or of another campaign."""
        headers = modern(self.bearer(whose or campaign), "view_leaderboard")
        return httpx2.post(
            f"{self.base}/c/{campaign}/mcp", headers=headers, json=tool_call({}), timeout=PATIENCE
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server of a folder with four campaigns, and a fifth whose database is none."""
    root = tmp_path_factory.mktemp("several")
    guard = scripted_guard(root)
    runs = root / "runs"
    folders = {name: runs / name for name in (*SERVED, BROKEN)}
    tokens = {name: dict(make_campaign(folder)) for name, folder in folders.items()}
    (folders[BROKEN] / "campaign.db").write_bytes(b"no database at all, but long enough " * 200)
    command = [sys.executable, "-m", "kernelarc_mcp", "serve", str(runs)]
    log = root / "server.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, "--http", "127.0.0.1:0", "--guard-python", guard],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            text=True,
        )
    try:
        until(lambda: "Overview" in log.read_text() or process.poll() is not None, "no server")
        found = re.search(r"Overview of them at (http://\S+)/", log.read_text())
        assert found, log.read_text()
        yield Server(found[1], process, folders, tokens)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(PATIENCE)
    said = log.read_text() + "".join(path.read_text() for path in runs.glob("*/logs/*.log"))
    assert not [token for own in tokens.values() for token in own.values() if token in said]
    trace = said.find("Traceback")
    assert trace < 0, said[trace - 500 : trace + 9000]


async def _works(server: Server, campaign: str, agent: str, number: int) -> dict[str, Any]:
    url = f"{server.base}/c/{campaign}/mcp"
    headers = {"Authorization": f"Bearer {server.tokens[campaign][agent]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        brief = answer_of(await client.call_tool("get_brief", {}))
        assert brief["state"]["agent"] == agent
        sent = {"source": planned(number, "gain:-9"), "summary": f"of {campaign}"}
        view = answer_of(await client.call_tool("submit_candidate", sent))
        while view["state"] != "done":
            view = answer_of(await client.call_tool("wait_submission", {"ticket": view["ticket"]}))
        return view


async def test_agents_of_two_campaigns_are_judged_at_once_each_in_its_own(server: Server) -> None:
    views: dict[tuple[str, str], dict[str, Any]] = {}

    async def work(campaign: str, agent: str, number: int) -> None:
        views[campaign, agent] = await _works(server, campaign, agent, number)

    async with anyio.create_task_group() as tasks:
        for number, (campaign, agent) in enumerate(
            (c, a) for c in ("left", "right") for a in ("ada", "bob")
        ):
            # Agents of the same names, and half of the sources are the same in both.
            tasks.start_soon(work, campaign, agent, number % 2)
    assert {view["reason"] for view in views.values()} == {"slower"}, views
    for campaign in ("left", "right"):
        board = server.board(campaign).json()["result"]["structuredContent"]
        assert board["attempts_used"] == 2
        assert [row["attempts_used"] for row in board["agents"]] == [1, 1]
        lines = (server.folders[campaign] / "logs" / "verdicts.log").read_text().splitlines()
        assert len(lines) == 2
        assert verify(server.folders[campaign]) == []
    (row,) = server.get("/campaigns", "torn").json()["campaigns"]
    assert row["numbers"]["attempts_used"] == 0


def test_another_campaigns_token_and_another_campaigns_name_are_nothing_special(
    server: Server,
) -> None:
    for path in PATHS:
        there, wrong, nowhere = (
            httpx2.get(server.base + where + path, headers=headers, timeout=PATIENCE)
            for where, headers in (
                ("/c/right", server.bearer("left")),
                ("/c/right", {"Authorization": "Bearer ka_wrong"}),
                ("/c/no-such-campaign", server.bearer("left")),
            )
        )
        assert there.status_code == 401, path
        for same in (wrong, nowhere):
            assert (same.status_code, same.text) == (there.status_code, there.text)
            assert same.headers["www-authenticate"] == there.headers["www-authenticate"]
    there, nowhere = (
        httpx2.post(f"{server.base}/c/{name}/", timeout=PATIENCE) for name in ("right", "none")
    )
    assert (there.status_code, there.text) == (nowhere.status_code, nowhere.text)
    for path in ("", "/", "/dashboard/files/words.js", "/dashboard/files/none"):
        there, nowhere = server.get(f"/c/right{path}"), server.get(f"/c/no-such-campaign{path}")
        assert (there.status_code, there.text) == (nowhere.status_code, nowhere.text), path
    led = server.get("/c/https:evil.example")
    assert (led.status_code, led.headers["location"]) == (308, "./https:evil.example/")
    assert server.board("right", whose="left").status_code == 401
    assert server.board("right").status_code == 200


def test_what_belongs_to_all_names_to_a_token_only_its_own_campaign(server: Server) -> None:
    asked = server.get("/campaigns")
    assert asked.status_code == 401 and "a token that opens this path" in asked.text
    lost = httpx2.post(f"{server.base}/mcp", timeout=PATIENCE)
    assert lost.status_code == 404 and "/c/NAME/mcp" in lost.json()["error_description"]
    lost = httpx2.post(f"{server.base}/", timeout=PATIENCE)
    assert lost.status_code == 405 and "GET" in lost.headers["allow"]
    assert "The MCP endpoint is /mcp, or /c/NAME/mcp" in lost.json()["error"]["message"]
    (row,) = server.get("/campaigns", "left").json()["campaigns"]
    assert (row["name"], row["path"], row["state"]) == ("left", "/c/left/", "served")
    assert row["numbers"]["attempts"] == 20
    assert server.get("/metrics").status_code == 401
    metrics = server.get("/metrics", "left").text
    assert 'kernelarc_agents{campaign="left"} 2.0' in metrics
    families = [family.name for family in text_string_to_metric_families(metrics)]
    assert len(families) == len(set(families)) and "process_resident_memory_bytes" in families
    health = server.get("/health").json()
    assert health["status"] == "degraded" and sum(health["campaigns"].values()) == 5
    shown = metrics + json.dumps(health) + server.get("/health", "left").text
    shown += server.get("/").text + server.get("/nothing", "left").text
    assert not [name for name in ("right", "torn", "gone", BROKEN) if f'"{name}"' in shown]


def test_dashboards_and_the_overview_open_below_their_paths(server: Server) -> None:
    page = httpx2.get(f"{server.base}/c/left", follow_redirects=True, timeout=PATIENCE)
    assert str(page.url) == f"{server.base}/c/left/" and page.status_code == 200
    for url in ("/c/left/", "/"):
        found = server.get(url).text
        files = re.findall(r'(?:src|href)="(\./[^"]+)"', found)
        assert files and '="/' not in found
        for name in files:
            assert server.get(url + name.removeprefix("./")).status_code == 200, name
    assert server.get("/overview/overview.html").status_code == 404
    for name in ("left", "right"):
        shown = server.get(f"/c/{name}/dashboard/data", name)
        assert shown.status_code == 200 and shown.json()["problem"] == "add"
        assert server.get(f"/c/{name}/health", name).json() == {"status": "served"}


def test_connect_finds_each_campaign_at_its_own_path(
    server: Server, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ("--client", "json", "--project", str(tmp_path))
    monkeypatch.setenv("KERNELARC_TOKEN", server.tokens["right"]["bob"])
    status, out, err = run("connect", str(server.folders["right"]), "--http", *base)
    assert status == 0 and "get_brief: bob on add" in err, err
    url = json.loads(out)["mcpServers"]["kernelarc"]["url"]
    assert url == f"{server.base}/c/right/mcp"
    elsewhere = ("--url", "https://gpu.lab.example", "--no-check")
    _, out, _ = run("connect", str(server.folders["right"]), *elsewhere, *base)
    assert "https://gpu.lab.example/c/right/mcp" in out
    status, _, err = run(
        "connect", str(server.folders["right"]), "--url", f"{server.base}/mcp", *base
    )
    assert status == 1 and "/c/NAME/mcp" in err


def test_a_campaign_that_breaks_says_so_and_the_others_go_on(server: Server) -> None:
    with closing(sqlite3.connect(server.folders["torn"] / "campaign.db")) as database:
        database.execute(
            "INSERT INTO event SELECT seq + 1, at, kind, agent, submission, body, 'no', 'no'"
            " FROM event ORDER BY seq DESC LIMIT 1"
        )
        database.commit()
    until(lambda: server.board("torn").status_code == 503, "it is served although it is broken")
    refused = server.board("torn").json()["error"]["message"]
    assert "ledger is broken" in refused and "Send it again" in refused
    there = server.folders["gone"] / "campaign.db"
    there.rename(there.with_name("elsewhere.db"))
    until(lambda: server.board("gone").status_code == 503, "it is served although it is gone")
    # One whose tokens cannot even be read refuses all but those that are known to be others'.
    asked = server.board(BROKEN)
    assert asked.status_code == 503 and "cannot be read" in asked.json()["error"]["message"]
    for broken in ("torn", "gone", BROKEN):
        assert server.board(broken, whose="left").status_code == 401
        assert server.get(f"/c/{broken}/mcp").status_code == 401
        assert server.get(f"/c/{broken}/").status_code == 200
    assert "ledger is broken" in server.get("/health", "torn").json()["amiss"]["torn"]["why"]
    assert server.get("/health", "left").json()["amiss"] == {}
    state = 'kernelarc_campaign_state{campaign="torn",state="down"} 1.0'
    assert state in server.get("/metrics", "torn").text
    assert server.board("left").status_code == server.board("right").status_code == 200


async def test_one_whose_guard_refuses_is_held_up_and_answers(server: Server) -> None:
    host = Host.open(server.folders["right"])
    host.register("ada")
    ticket, _ = host.submit("ada", source=planned(77, "refuse_often"), summary="s")
    host.close()
    until(
        lambda: server.get("/c/right/health", "right").status_code == 503,
        "nothing says that the guard refuses",
    )
    said = server.get("/health", "right").json()["amiss"]["right"]
    assert said["status"] == "held_up" and said["why"].startswith("Nothing is judged"), said
    assert server.board("right").status_code == 200
    view = await _works(server, "left", "ada", 5)
    assert view["verdict"] == "REVERT"
    cancelled = Host.open(server.folders["right"])
    assert cancelled.submission("ada", ticket).state != "done"
    cancelled.close()


def test_a_stop_ends_every_campaign(server: Server) -> None:
    for number, name in enumerate(("left", "right")):
        host = Host.open(server.folders[name])
        host.register("bob")
        host.submit("bob", source=planned(50 + number, "gain:-9"), summary="s")
        host.close()
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    until(lambda: len(children.read_text().split()) >= 2, "not every campaign has a guard")
    guards = children.read_text().split()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == -signal.SIGTERM
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in guards), "a guard stays")
    for name in ("left", "right"):
        assert verify(server.folders[name]) == []
        seat = Seat(server.folders[name])
        assert seat.try_take(), "whoever serves it next is not elected at once"
        seat.release()


async def test_one_that_can_be_opened_again_is_served_again(place: Made, silent_guard: str) -> None:
    tries: list[str] = []

    def opened() -> Host:
        tries.append("again")
        if len(tries) == 1:
            raise CampaignError("the disk is not back yet")
        return Host.open(place.folder, same_machine=False)

    def build(host: Host) -> MCPServer[None]:
        return build_server(host, guard_python=silent_guard)

    opening = Opening(Place("one", place.folder), "its disk is gone", opened, build)
    connections = Connections(Tallies(CollectorRegistry()), 15.0)
    campaign = ServedCampaign(opening, Rules(), connections, again_seconds=0.05)
    assert (campaign.standing().state, campaign.standing().why) == ("down", "its disk is gone")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(campaign.run)
        with anyio.fail_after(PATIENCE):
            while campaign.standing().state != "served":
                await anyio.sleep(0.02)
        assert len(tries) == 2
        holder = campaign.holder_of_token(place.tokens["ada"])
        assert holder is not None and holder.name == "ada"
        tasks.cancel_scope.cancel()


def test_names_that_do_not_fit_and_names_that_are_two_are_refused(
    tmp_path: Path, run: Run, silent_guard: str
) -> None:
    one, other = create(tmp_path / "a" / "rms"), create(tmp_path / "b" / "rms")
    odd = create(tmp_path / "a" / "two words")
    assert is_several([one.folder, other.folder]) and is_several([tmp_path / "a"])
    assert not is_several([one.folder]) and not is_several([tmp_path])
    with pytest.raises(CampaignError, match=r"would both be at /c/rms"):
        places_of([one.folder, other.folder])
    with pytest.raises(CampaignError, match="'two words' is no name for a URL"):
        places_of([tmp_path / "a"])
    with pytest.raises(CampaignError, match="no campaign here"):
        places_of([one.folder, tmp_path / "gone"])
    guard = ("--guard-python", silent_guard)
    status, _, err = run("serve", str(one.folder), str(odd.folder), *guard)
    assert status == 2 and "over stdio one campaign is served" in err


def test_where_none_can_be_opened_nothing_is_served(
    place: Made, tmp_path: Path, run: Run, silent_guard: str
) -> None:
    more = create(tmp_path / "more")
    for one in (place, more):
        (one.folder / "campaign.db").write_bytes(b"x" * 5000)
    status, _, err = run(
        *("serve", str(place.folder), str(more.folder)),
        *("--http", "127.0.0.1:0", "--guard-python", silent_guard),
    )
    assert status == 2 and "none of them can be opened" in err, err
