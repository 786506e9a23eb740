"""The smallest agent: submit one file to a campaign and print the verdict. Copy it and go on.

KERNELARC_TOKEN=... python minimal.py http://127.0.0.1:8765/mcp kernel.cpp
"""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    answer = result.structured_content
    if result.is_error or not isinstance(answer, dict):
        sys.exit(f"{tool}: {result.content}")
    return answer


async def main(url: str, path: Path) -> None:
    headers = {"Authorization": f"Bearer {os.environ['KERNELARC_TOKEN']}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        brief = await call(client, "get_brief")
        print(f"{brief['problem']} on {brief['device']}: {brief['next_step']}")
        python = path.suffix == ".py"
        view = await call(
            client,
            "submit_candidate",
            source=path.read_text(encoding="utf-8"),
            filename=path.name,
            destination_passing=not python,
            binding="" if python else "dlpack",
            summary=f"{path.name} as it is",
        )
        while view["state"] != "done":
            view = await call(client, "wait_submission", ticket=view["ticket"])
        print(f"{view['verdict']} {view['reason']}: {view['detail']}")
        print(view["next_step"])


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]))
