"""Agents that call a server's tools over HTTP, in either protocol era, and note how long each call took."""

import json
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import anyio
import httpx2

Era = Literal["2025-11-25", "2026-07-28"]
ERAS: Final[tuple[Era, ...]] = ("2025-11-25", "2026-07-28")
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
    limits = httpx2.Limits(max_connections=len(tokens) + 1, max_keepalive_connections=len(tokens))
    async with httpx2.AsyncClient(limits=limits, timeout=120.0) as http:
        agents = [Agent(url, t, ERAS[n % len(ERAS)], http) for n, t in enumerate(tokens)]
        for agent in agents:
            await agent.begin()
        yield agents


@dataclass
class Plan:
    """What an agent calls, one after the other, again and again."""

    calls: list[tuple[str, dict[str, Any]]]
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Tool -> how long its calls took, milliseconds."""


async def work(agents: list[Agent], plans: list[Plan], seconds: float, seed: int) -> None:
    """Have every agent make about one call a second, at moments of its own, for `seconds`."""
    async with anyio.create_task_group() as group:
        for number, (agent, plan) in enumerate(zip(agents, plans, strict=True)):
            chance = random.Random(f"{seed}-{number}")
            group.start_soon(_work_one, agent, plan, seconds, chance)


async def _work_one(agent: Agent, plan: Plan, seconds: float, chance: random.Random) -> None:
    end = time.monotonic() + seconds
    due = time.monotonic() + chance.uniform(0.0, 1.0)
    while due < end:
        await anyio.sleep(max(0.0, due - time.monotonic()))
        tool, arguments = plan.calls[agent.calls % len(plan.calls)]
        began = time.perf_counter()
        await agent.call(tool, arguments)
        plan.taken[tool].append(1000 * (time.perf_counter() - began))
        due = max(due + chance.uniform(0.5, 1.5), time.monotonic())
