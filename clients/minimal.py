"""The smallest agent: submit one file to a campaign and print the verdict. Copy it and go on.

KERNELARC_TOKEN=... python minimal.py http://127.0.0.1:8765/mcp kernel.cpp

What a draft changes is said behind the file: algorithm=NAME, dsl=NAME, layout=NAME.
"""

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

AWAY, PAUSE = 60, 2  # how often a server that went away is looked for, and after how many seconds
NOBODY = "nobody answers there; `kernelarc-mcp serve DIR --http HOST:PORT` starts a server"
ELSEWHERE = "no MCP server; its path is /mcp, or /c/NAME/mcp where it serves several campaigns"
KNOWN = {401: "the server knows no such token", 404: ELSEWHERE, 405: ELSEWHERE}
DECLARED = ("algorithm", "dsl", "layout")
USAGE = "usage: KERNELARC_TOKEN=TOKEN python minimal.py URL FILE [algorithm=NAME] [dsl=NAME] [layout=NAME]"
DRAFT = "its directive is DRAFT: say behind the file what differs, such as algorithm=NAME; nothing was submitted"
COUNTED = re.compile(r"[:,]? (?:pair \d|workload \d|\w+ started).*")


class Steps:
    """Says on stderr which step a judgement is at, whenever that changes."""

    last = ""

    async def told(self, progress: float, total: float | None, message: str | None) -> None:
        step = COUNTED.sub("", message or "")
        if step != self.last:
            self.last = step
            print(f"  {step}", file=sys.stderr, flush=True)


async def call(
    client: Client, tool: str, steps: Steps | None = None, **arguments: Any
) -> dict[str, Any]:
    told = steps.told if steps else None
    result = await client.call_tool(tool, arguments, progress_callback=told)
    answer = result.structured_content
    if result.is_error or not isinstance(answer, dict):
        # It begins with the tool's name.
        raise ValueError(" ".join(getattr(c, "text", "") for c in result.content))
    return answer


async def main(url: str, name: str, source: str, declared: dict[str, str], token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
        try:
            status = (await http.post(url)).status_code
        except httpx2.ConnectError:
            raise ValueError(NOBODY) from None
        if status in KNOWN:
            raise ValueError(KNOWN[status])
        for left in reversed(range(AWAY)):
            try:
                async with Client(streamable_http_client(url, http_client=http)) as client:
                    await submit(client, name, source, declared)
                return
            except* (httpx2.HTTPError, MCPError, OSError) as lost:
                if not left:
                    raise
                print(f"the server went away ({first(lost)}); trying again", flush=True)
            await anyio.sleep(PAUSE)


async def submit(client: Client, name: str, source: str, declared: dict[str, str]) -> None:
    brief = await call(client, "get_brief")
    print(f"{brief['problem']} on {brief['device']}: {brief['next_step']}", flush=True)
    if brief["state"]["directive"] == "DRAFT" and not declared:
        raise ValueError(DRAFT)
    print(f"submitting {name}, and waiting for the verdict", flush=True)
    # What was sent under this id before is found again: nothing is charged or judged twice.
    once = hashlib.sha256(f"{name}\n{source}".encode()).hexdigest()[:32]
    sent = {"source": source, "filename": name, "destination_passing": not name.endswith(".py")}
    told = {"summary": f"{name} as it is", "request_id": once, **declared}
    steps = Steps()
    view = await call(client, "submit_candidate", steps, **sent, **told)
    while view["state"] != "done":
        print(f"{view['ticket']} {view['state']}: {view['message']}", flush=True)
        view = await call(client, "wait_submission", steps, ticket=view["ticket"])
    print(f"{view['verdict']} {view['reason']}: {view['detail']}\n{view['next_step']}")


def first(failure: BaseException) -> BaseException:
    """The client runs in tasks of its own, so that failures come in nested groups."""
    return first(failure.exceptions[0]) if isinstance(failure, BaseExceptionGroup) else failure


if __name__ == "__main__":
    token = os.environ.get("KERNELARC_TOKEN", "")
    declared = dict(one.partition("=")[::2] for one in sys.argv[3:])
    if len(sys.argv) < 3 or not token or not all(declared.values()) or declared.keys() - DECLARED:
        sys.exit(USAGE)
    try:
        text = Path(sys.argv[2]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        sys.exit(f"minimal: {sys.argv[2]}: {getattr(fault, 'strerror', 'no UTF-8 text')}")
    try:
        anyio.run(main, sys.argv[1], Path(sys.argv[2]).name, text, declared, token)
    except* (httpx2.HTTPError, MCPError, OSError, ValueError) as failures:
        sys.exit(
            f"minimal: {sys.argv[1]}: {str(first(failures)) or type(first(failures)).__name__}"
        )
