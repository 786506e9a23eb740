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
    try:
        async with connection as campaign:
            await Agent(campaign, chosen.name, chosen.seed).run(chosen.attempts)
    except ToolFailed as refusal:
        print(f"{chosen.name or 'tuner'}: {refusal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, arguments()))
