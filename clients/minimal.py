"""The smallest agent: submit one file to a campaign and print the verdict. Copy it and go on.

KERNELARC_TOKEN=... python minimal.py http://127.0.0.1:8765/mcp kernel.cpp
"""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    answer = result.structured_content
    if result.is_error or not isinstance(answer, dict):
        raise ValueError(f"{tool}: {' '.join(getattr(c, 'text', '') for c in result.content)}")
    return answer


async def main(url: str, name: str, source: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
        status = (await http.post(url)).status_code
        if status in (401, 404):
            paths = "its path is /mcp, or /c/NAME/mcp on a server of several campaigns"
            known = {401: "the server knows no such token", 404: f"no server; {paths}"}
            raise ValueError(known[status])
        async with Client(streamable_http_client(url, http_client=http)) as client:
            await submit(client, name, source)


async def submit(client: Client, name: str, source: str) -> None:
    brief = await call(client, "get_brief")
    print(f"{brief['problem']} on {brief['device']}: {brief['next_step']}", flush=True)
    print(f"submitting {name}, and waiting for the verdict", flush=True)
    fills = not name.endswith(".py")
    sent = {"source": source, "filename": name, "destination_passing": fills}
    view = await call(client, "submit_candidate", **sent, summary=f"{name} as it is")
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
