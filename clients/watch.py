"""Watch a campaign's board: one line for each verdict, record and alarm, as they happen.

    KERNELARC_TOKEN=... python watch.py http://127.0.0.1:8765/mcp

It subscribes to the board; with `--poll SECONDS` it asks for it instead, which every server and
proxy can do. It uses an agent's token, and the board is for agents that have begun: it calls
get_brief once, as the agent itself would, then nothing but view_leaderboard. It charges nothing.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
from mcp import MCPError
from mcp.client.subscriptions import SubscriptionLost

# A checkout and a wheel both ship this folder as plain files, not as a package.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tuning.connection import Campaign, ToolFailed, over_http, said

BOARD: Final = "kernelarc://board"


def news(before: dict[str, Any] | None, now: dict[str, Any]) -> list[str]:
    """Return what a board says that the one before it did not; None: there was none."""
    lines = []
    if before is None:
        lines.append(
            f"{now['problem']} on {now['device']}: {now['attempts_used']} of {now['attempts']} "
            f"attempts used, record {record(now)}"
        )
        before = now | {"agents": []}
    known = {row["agent"]: row["verdicts"] for row in before["agents"]}
    for row in now["agents"]:
        for verdict, count in sorted(row["verdicts"].items()):
            more = count - known.get(row["agent"], {}).get(verdict, 0)
            if more > 0:
                times = f" x{more}" if more > 1 else ""
                lines.append(
                    f"{row['agent']}: {verdict}{times} "
                    f"({row['attempts_used']} used, {row['attempts_left']} left)"
                )
    if now["record"]["submission"] != before["record"]["submission"]:
        lines.append(f"record: {record(now)}")
    for alarm in ("quarantined", "suspect"):
        if now[alarm] != before[alarm]:
            lines.append(f"{alarm}: {now[alarm] or 'no more'}")
    return lines


def record(board: dict[str, Any]) -> str:
    """Return the record in words."""
    row = board["record"]
    by = f" by {row['agent']}" if row["agent"] else ""
    return f"{row['submission']}{by}, {row['speedup']:.3f}x the seed"


class Watch:
    """Prints what is new on the board at each look."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._before: dict[str, Any] | None = None
        self._began = time.monotonic()

    async def follow(self, poll: float) -> None:
        """Look whenever the server says that the board changed, or every `poll` seconds."""
        while poll:
            await self.look()
            await anyio.sleep(poll)
        async with self._campaign.client.listen(resource_subscriptions=[BOARD]) as heard:
            # Once more: what changes from here on is heard.
            await self.look()
            async for _ in heard:
                await self.look()

    async def look(self) -> None:
        """Read the board and print what is new."""
        now = await self._board()
        for line in news(self._before, now):
            print(f"{time.monotonic() - self._began:7.1f} s  {line}", flush=True)
        self._before = now

    async def _board(self) -> dict[str, Any]:
        """Return the board with all its agents, who are shown some at a time."""
        board = await self._campaign.call("view_leaderboard")
        following = board["next_agent"]
        while following is not None:
            page = await self._campaign.call("view_leaderboard", first_agent=following)
            board["agents"] += page["agents"]
            following = page["next_agent"]
        return board


async def main(chosen: argparse.Namespace) -> None:
    async with over_http(chosen.url, os.environ["KERNELARC_TOKEN"]) as campaign:
        await campaign.call("get_brief")
        watch = Watch(campaign)
        await watch.look()
        with anyio.move_on_after(chosen.seconds or None):
            await watch.follow(chosen.poll)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Watch a campaign's board.")
    parser.add_argument("url", help="server of the campaign; a token is in KERNELARC_TOKEN")
    parser.add_argument("--poll", type=float, default=0, metavar="S", help="ask every S seconds")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long")
    chosen = parser.parse_args()
    if not os.environ.get("KERNELARC_TOKEN"):
        parser.error("set KERNELARC_TOKEN to an agent's token")
    return chosen


def run() -> int:
    status = 0
    try:
        anyio.run(main, arguments())
    except* (ToolFailed, SubscriptionLost, MCPError, httpx2.HTTPError, OSError) as failures:
        print(f"watch: {said(failures)}", file=sys.stderr)
        status = 1
    except* KeyboardInterrupt:
        status = 130
    return status


if __name__ == "__main__":
    sys.exit(run())
