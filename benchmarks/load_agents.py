"""Agents that call a server's tools over HTTP, in either protocol era, and note how long each call took."""

import json
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import quantiles
from typing import Any, Final, Literal

import anyio
import httpx2

Era = Literal["2025-11-25", "2026-07-28"]
ERAS: Final[tuple[Era, ...]] = ("2025-11-25", "2026-07-28")
Calls = list[tuple[str, dict[str, Any]]]
"""Tools with arguments: what an agent calls, one after the other, again and again."""
Taken = dict[str, list[float]]
"""Tool -> how long its calls took, milliseconds."""
Row = tuple[str, int, float, float]
_IDLE_SECONDS: Final = 4.0
"""A connection that idles longer is closed here: uvicorn closes it after 5, perhaps under a request."""
_INFO: Final = {"name": "load", "version": "1"}


class CallFailed(Exception):
    """A call was answered with an error."""


@dataclass
class Agent:
    """One agent: a connection of its own, a token, an era."""

    url: str
    token: str
    era: Era
    http: httpx2.AsyncClient
    session: str = ""
    calls: int = 0

    async def begin(self) -> None:
        """Shake hands, where the era does."""
        if self.era == "2026-07-28":
            return
        hello = {"protocolVersion": self.era, "capabilities": {}, "clientInfo": _INFO}
        response = await self._post(self._request("initialize", hello), {})
        self.session = response.headers["mcp-session-id"]
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, {})

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its structured answer; CallFailed where it is an error."""
        parameters: dict[str, Any] = {"name": tool, "arguments": arguments}
        headers = {}
        if self.era == "2026-07-28":
            headers = {"Mcp-Method": "tools/call", "Mcp-Name": tool}
            known = {"protocolVersion": self.era, "clientInfo": _INFO, "clientCapabilities": {}}
            parameters["_meta"] = {f"io.modelcontextprotocol/{k}": v for k, v in known.items()}
        response = await self._post(self._request("tools/call", parameters), headers)
        answer = _answer(response)
        if "error" in answer or answer["result"].get("isError"):
            raise CallFailed(f"{tool}: {str(answer)[:400]}")
        found: dict[str, Any] = answer["result"]["structuredContent"]
        return found

    def _request(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        return {"jsonrpc": "2.0", "id": self.calls, "method": method, "params": parameters}

    async def _post(self, message: dict[str, Any], headers: dict[str, str]) -> httpx2.Response:
        sent = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": self.era,
            **({"Authorization": f"Bearer {self.token}"} if self.token else {}),
            **({"Mcp-Session-Id": self.session} if self.session else {}),
            **headers,
        }
        response = await self.http.post(self.url, content=json.dumps(message), headers=sent)
        if response.status_code >= 400:
            raise CallFailed(f"{message['method']}: {response.status_code} {response.text[:400]}")
        return response


def _answer(response: httpx2.Response) -> dict[str, Any]:
    """Return the answer out of JSON, or out of the last message of a stream."""
    text = response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        text = [line[5:] for line in text.splitlines() if line.startswith("data:")][-1]
    found: dict[str, Any] = json.loads(text)
    return found


@asynccontextmanager
async def agents_of(url: str, tokens: Sequence[str]) -> AsyncIterator[list[Agent]]:
    """Yield an agent for each token, the eras in turn, all connected."""
    limits = httpx2.Limits(keepalive_expiry=_IDLE_SECONDS)
    trusted = httpx2.create_ssl_context()
    async with AsyncExitStack() as ends:
        agents = []
        for number, token in enumerate(tokens):
            client = httpx2.AsyncClient(limits=limits, timeout=120.0, verify=trusted)
            http = await ends.enter_async_context(client)
            agents.append(Agent(url, token, ERAS[number % len(ERAS)], http))
            await agents[-1].begin()
        yield agents


async def work(agents: list[Agent], calls: list[Calls], seconds: float, seed: int) -> Taken:
    """Have every agent make about one of its calls a second, at moments of its own, for `seconds`."""
    taken: Taken = defaultdict(list)
    async with anyio.create_task_group() as group:
        for number, (agent, own) in enumerate(zip(agents, calls, strict=True)):
            chance = random.Random(f"{seed}-{number}")
            group.start_soon(_work_one, agent, own, taken, seconds, chance)
    return taken


async def _work_one(
    agent: Agent, calls: Calls, taken: Taken, seconds: float, chance: random.Random
) -> None:
    end = time.monotonic() + seconds
    due = time.monotonic() + chance.uniform(0.0, 1.0)
    while due < end:
        await anyio.sleep(max(0.0, due - time.monotonic()))
        tool, arguments = calls[agent.calls % len(calls)]
        began = time.perf_counter()
        await agent.call(tool, arguments)
        taken[tool].append(1000 * (time.perf_counter() - began))
        due = max(due + chance.uniform(0.5, 1.5), time.monotonic())


def quantile_row(name: str, taken: list[float]) -> Row:
    """Return name, count, p50 and p99."""
    cuts = quantiles(taken, n=100, method="inclusive")
    return name, len(taken), cuts[49], cuts[98]
