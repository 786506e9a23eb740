"""A scripted agent: it speaks MCP like any other client and tunes a real family of kernels.

    KERNELARC_TOKEN=... python tuner.py --url http://127.0.0.1:8765/mcp
    python tuner.py --stdio-campaign DIR --name agent-1

It takes its lens, reads the memory, submits generated C++ or torch code, obeys the directives and
writes down what it learned. No language model is involved, and no verdict is decided here.
"""

import argparse
import os
import sys
from pathlib import Path

import anyio
import httpx2
from mcp import MCPError

# A checkout and a wheel both ship this folder as plain files, not as a package.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tuning.agent import Agent
from tuning.connection import ToolFailed, over_http, over_stdio


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Optimise a campaign's kernel as one agent.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", help="server of the campaign; the token is in KERNELARC_TOKEN")
    where.add_argument(
        "--stdio-campaign", type=Path, metavar="DIR", help="start a server for this campaign"
    )
    parser.add_argument("--name", "--agent", default="", help="agent's name (needed with stdio)")
    parser.add_argument("--attempts", type=int, default=1_000_000, help="at most this many")
    parser.add_argument("--seed", type=int, default=1, help="seed of the choices")
    chosen = parser.parse_args()
    if chosen.url and not os.environ.get("KERNELARC_TOKEN"):
        parser.error("set KERNELARC_TOKEN to the agent's token")
    if chosen.stdio_campaign and not chosen.name:
        parser.error("--stdio-campaign needs --name")
    return chosen


async def main(chosen: argparse.Namespace) -> int:
    connection = (
        over_http(chosen.url, os.environ["KERNELARC_TOKEN"])
        if chosen.url
        else over_stdio(chosen.stdio_campaign, chosen.name)
    )
    status = 0
    try:
        async with connection as campaign:
            await Agent(campaign, chosen.name, chosen.seed).run(chosen.attempts)
    except* (ToolFailed, MCPError, httpx2.HTTPError) as failures:
        # The connection runs in tasks of its own, so that failures come in nested groups.
        status = 1
        for line in messages(failures):
            print(f"{chosen.name or 'tuner'}: {line}", file=sys.stderr)
    return status


def messages(failure: BaseException) -> list[str]:
    """Return what each failure of a nested group says."""
    if isinstance(failure, BaseExceptionGroup):
        return [line for inner in failure.exceptions for line in messages(inner)]
    return [str(failure) or type(failure).__name__]


if __name__ == "__main__":
    sys.exit(anyio.run(main, arguments()))
