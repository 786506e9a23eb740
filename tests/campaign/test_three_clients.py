"""One campaign, three clients at once, the real guard: two over HTTP and one over its own stdio server."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from guard_process import PARAMETERS, REFERENCE, SCHEDULE, problem
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from own_device import guard_python
from server_process import http_server
from serving import answer_of

from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.rule import Parameters
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.events import Calibrated, Confirmed, Screened, read
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings
from kernelarc_mcp.host.verify import verify

pytestmark = pytest.mark.anyio

BODY = "import torch\n\n\ndef run(x, scale):\n    "
FAULTS = {
    "wrong": (BODY + "return x * scale\n", "REVERT", "wrong_result"),
    "slow": (
        BODY + "for _ in range(60):\n        y = torch.tanh(x)\n    return y * scale\n",
        "REVERT",
        "slower",
    ),
    "does not load": ("import no_such_module\n" + BODY + "return x\n", "REJECT", "build_failed"),
    "loops": (BODY + "while True:\n        pass\n", "REJECT", "timeout"),
    "segfaults": (BODY + "import ctypes\n    ctypes.string_at(0)\n", "REJECT", "crashed"),
    "crashes when large": (
        BODY + "if x.numel() > 10000:\n        import ctypes\n        ctypes.string_at(0)\n"
        "    return torch.tanh(x) * scale\n",
        "REVERT",
        "crashed",
    ),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def create(folder: Path, agents: list[str], attempts: int, **rules: Any) -> dict[str, str]:
    """Create a campaign whose judgements take a second."""
    settings = CampaignSettings(
        name="trial",
        problem="scaled_tanh",
        agents=agents,
        attempts=attempts,
        r_draft=50,
        schedule=Schedule.model_validate(SCHEDULE | {"start_seconds": 8.0, "call_seconds": 4.0}),
        parameters=Parameters(**PARAMETERS, screen_pairs=4, dropped_pairs=4),
        **rules,
    )
    return dict(Host.create(folder, settings, Problem.model_validate(problem()), None))


@asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[Client]:
    """Yield a client with a bearer token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(folder: Path, agent: str) -> AsyncIterator[Client]:
    """Yield a client of a server process of its own."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "kernelarc_mcp", "serve", str(folder)],
        env={**os.environ, "KERNELARC_AGENT": agent},
    )
    async with Client(server) as client:
        yield client


def recorded_leases(folder: Path) -> list[tuple[int, int]]:
    """Return when the device was held, from the ledger, in order."""
    campaign = open_campaign(folder)
    try:
        bodies = [read(row).body for row in campaign.journal.ledger.rows_after(0)]
    finally:
        campaign.close()
    results = [one.result for one in bodies if isinstance(one, Calibrated | Screened | Confirmed)]
    return sorted((r.lease.from_ns, r.lease.to_ns) for r in results if r.lease is not None)


async def submit(client: Client, source: str) -> dict[str, Any]:
    """Submit a torch kernel and wait for its verdict."""
    arguments = {"source": source, "filename": "kernel.py", "summary": "a try"}
    answer = answer_of(await client.call_tool("submit_candidate", arguments))
    while answer["state"] != "done":
        answer = answer_of(await client.call_tool("wait_submission", {"ticket": answer["ticket"]}))
    return answer


async def test_three_clients_at_once_are_charged_exactly_and_measured_one_at_a_time(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "campaign"
    tokens = create(folder, ["ada", "bob", "eve"], attempts=9)
    verdicts: dict[str, list[str]] = {}

    async def work(agent: str, client: Client) -> None:
        answer_of(await client.call_tool("get_brief", {}))
        for number in range(3):
            answer = await submit(
                client, f"{REFERENCE}\nNUMBER = {number!r} + {agent!r}.__len__()\n"
            )
            verdicts.setdefault(agent, []).append(answer["verdict"])
        refused = await client.call_tool("submit_candidate", {"source": REFERENCE + "\nX = 1\n"})
        assert refused.is_error, "the share of this agent is spent"

    with http_server(folder, guard_python()) as (_, url), anyio.fail_after(300):
        async with (
            over_http(url, tokens["ada"]) as ada,
            over_http(url, tokens["bob"]) as bob,
            over_stdio(folder, "eve") as eve,
            anyio.create_task_group() as group,
        ):
            for agent, client in (("ada", ada), ("bob", bob), ("eve", eve)):
                group.start_soon(work, agent, client)
    assert {agent: len(seen) for agent, seen in verdicts.items()} == {"ada": 3, "bob": 3, "eve": 3}
    leases = recorded_leases(folder)
    assert len(leases) >= 9
    assert all(before[1] <= after[0] for before, after in zip(leases, leases[1:], strict=False))
    assert verify(folder) == []


async def test_each_fault_has_its_verdict_and_the_next_submission_is_judged_normally(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "campaign"
    tokens = create(folder, ["ada"], attempts=2 * len(FAULTS), canary_rate=0.0)
    with http_server(folder, guard_python()) as (_, url), anyio.fail_after(300):
        async with over_http(url, tokens["ada"]) as client:
            for number, (name, (source, verdict, reason)) in enumerate(FAULTS.items()):
                before = answer_of(await client.call_tool("get_brief", {}))["state"]["r"]
                answer = await submit(client, source)
                assert (answer["verdict"], answer["reason"]) == (verdict, reason), name
                moved = answer["state_after"]["r"] - before
                assert moved == (0 if verdict == "REJECT" else 1), name
                after = await submit(client, f"{REFERENCE}\nAFTER = {number}\n")
                assert after["stages"]["correctness"]["state"] == "passed", name
    assert verify(folder) == []
