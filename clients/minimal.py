"""The smallest agent: submit one file to a campaign and print the verdict. Copy it and go on.

KERNELARC_TOKEN=... python minimal.py http://127.0.0.1:8765/mcp kernel.cpp
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

AWAY, PAUSE = 60, 2  # how often a server that went away is looked for, and after how many seconds
ELSEWHERE = "no MCP server; its path is /mcp, or /c/NAME/mcp where it serves several campaigns"
KNOWN = {401: "the server knows no such token", 404: ELSEWHERE, 405: ELSEWHERE}


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    answer = result.structured_content
    if result.is_error or not isinstance(answer, dict):
        raise ValueError(f"{tool}: {' '.join(getattr(c, 'text', '') for c in result.content)}")
    return answer


async def main(url: str, name: str, source: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
        if (status := (await http.post(url)).status_code) in KNOWN:
            raise ValueError(KNOWN[status])
        for left in reversed(range(AWAY)):
            try:
                async with Client(streamable_http_client(url, http_client=http)) as client:
                    await submit(client, name, source)
                return
            except* (httpx2.HTTPError, MCPError, OSError) as lost:
                if not left:
                    raise
                print(f"the server went away ({first(lost)}); trying again", flush=True)
            await anyio.sleep(PAUSE)


async def submit(client: Client, name: str, source: str) -> None:
    brief = await call(client, "get_brief")
    print(f"{brief['problem']} on {brief['device']}: {brief['next_step']}", flush=True)
    print(f"submitting {name}, and waiting for the verdict", flush=True)
    # What was sent under this id before is found again: nothing is charged or judged twice.
    once = hashlib.sha256(f"{name}\n{source}".encode()).hexdigest()[:32]
    sent = {"source": source, "filename": name, "destination_passing": not name.endswith(".py")}
    told = {"summary": f"{name} as it is", "request_id": once}
    view = await call(client, "submit_candidate", **sent, **told)
    while view["state"] != "done":
        print(f"{view['ticket']} {view['state']}: {view['message']}", flush=True)
        view = await call(client, "wait_submission", ticket=view["ticket"])
    print(f"{view['verdict']} {view['reason']}: {view['detail']}\n{view['next_step']}")


def first(failure: BaseException) -> BaseException:
    """The client runs in tasks of its own, so that failures come in nested groups."""
    return first(failure.exceptions[0]) if isinstance(failure, BaseExceptionGroup) else failure


if __name__ == "__main__":
    token = os.environ.get("KERNELARC_TOKEN", "")
    if len(sys.argv) != 3 or not token:
        sys.exit("usage: KERNELARC_TOKEN=TOKEN python minimal.py URL FILE")
    try:
        text = Path(sys.argv[2]).read_text(encoding="utf-8")
        anyio.run(main, sys.argv[1], Path(sys.argv[2]).name, text, token)
    except* (httpx2.HTTPError, MCPError, OSError, ValueError) as failures:
        sys.exit(
            f"minimal: {sys.argv[1]}: {str(first(failures)) or type(first(failures)).__name__}"
        )
