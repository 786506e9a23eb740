"""What one more campaign costs a server that serves several: memory, CPU and descriptors, idle.

    python -m benchmarks.several_campaigns --campaigns 1 2 8

One server process for each number, each campaign with eight agents that have read their briefs and its
dashboard opened once. Nothing is submitted; what stands for the guard never answers and is not counted. `apart` is so many processes of one
campaign each. Prints a Markdown table of the server's own process: resident memory, its share of what
is shared (PSS), and what is private. With `--executor ray://HEAD` each campaign's stand-in is counted too.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.load_campaign import create

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from host_places import silent_guard
from http_door import until

AGENTS: Final = 8
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Of one or several processes."""

    resident: float
    """MiB, as the other two."""
    shared_out: float
    private: float
    descriptors: int
    cpu: float
    """Seconds since its start."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.resident + other.resident,
            self.shared_out + other.shared_out,
            self.private + other.private,
            self.descriptors + other.descriptors,
            self.cpu + other.cpu,
        )


def cost_of(pid: int, *, below: bool) -> Cost:
    """Return what a process takes, with all that it started where `below` is set."""
    proc = Path(f"/proc/{pid}")
    kibibytes = {
        name: int(size)
        for name, size in re.findall(
            r"^(\w+):\s+(\d+) kB$", (proc / "smaps_rollup").read_text(), re.M
        )
    }
    fields = (proc / "stat").read_text().rpartition(")")[2].split()
    cost = Cost(
        kibibytes["Rss"] / 1024,
        kibibytes["Pss"] / 1024,
        (kibibytes["Private_Clean"] + kibibytes["Private_Dirty"]) / 1024,
        len(list((proc / "fd").iterdir())),
        (int(fields[11]) + int(fields[12])) / _TICKS,
    )
    if below:
        for child in (proc / "task" / str(pid) / "children").read_text().split():
            cost += cost_of(int(child), below=True)
    return cost


@contextmanager
def server(folders: list[Path], guard: str, executor: str, log: Path) -> Iterator[tuple[int, str]]:
    """Yield a server's process and its URL without a path."""
    command = [sys.executable, "-m", "kernelarc_mcp", "serve", *map(str, folders)]
    command += ["--http", "127.0.0.1:0", "--guard-python", guard, "--executor", executor]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors)
    try:
        until(lambda: "at http://" in log.read_text() or process.poll() is not None, "no server")
        found = re.search(r"at (http://[\d.:]+)/", log.read_text())
        assert found, log.read_text()
        yield process.pid, found[1]
    finally:
        process.terminate()
        process.wait(60)


async def use(url: str, tokens: dict[str, str]) -> None:
    """Let every agent of a campaign read its brief, and look at the dashboard."""
    for token in tokens.values():
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
                assert not (await client.call_tool("get_brief", {})).is_error
            assert (await http.get(f"{url}/dashboard/data")).status_code == 200


def measure(number: int, options: argparse.Namespace, *, apart: bool) -> Cost:
    """Return what so many campaigns take in one process, or in a process each; CPU per idle second."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        root = Path(place)
        guard = silent_guard(root)
        folders = [root / f"campaign-{one}" for one in range(number)]
        tokens = [create(folder, AGENTS, 100) for folder in folders]
        groups = [[folder] for folder in folders] if apart else [folders]
        begun = [
            stack.enter_context(server(group, guard, options.executor, root / f"{n}.log"))
            for n, group in enumerate(groups)
        ]
        for n, folder in enumerate(folders):
            base = begun[n if apart else 0][1]
            path = "" if apart or number == 1 else f"/c/{folder.name}"
            anyio.run(use, base + path, tokens[n])
        before = sum((_all(begun, options)), start=_NOTHING)
        time.sleep(options.seconds)
        after = sum((_all(begun, options)), start=_NOTHING)
    idle = (after.cpu - before.cpu) / options.seconds
    return Cost(after.resident, after.shared_out, after.private, after.descriptors, idle)


_NOTHING: Final = Cost(0, 0, 0, 0, 0)


def _all(begun: list[tuple[int, str]], options: argparse.Namespace) -> list[Cost]:
    return [cost_of(pid, below=options.executor != "local") for pid, _ in begun]


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--campaigns", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--apart", type=int, nargs="*", default=[8])
    parser.add_argument("--executor", default="local")
    parser.add_argument("--seconds", type=float, default=10.0, help="that CPU is counted over")
    options = parser.parse_args()
    print("| campaigns | resident MiB | PSS MiB | private MiB | descriptors | idle, of a core |")
    print("|---|---|---|---|---|---|")
    for number, apart in [(n, False) for n in options.campaigns] + [
        (n, True) for n in options.apart
    ]:
        cost = measure(number, options, apart=apart)
        named = f"{number}, a process each" if apart else f"{number}"
        print(
            f"| {named} | {cost.resident:.0f} | {cost.shared_out:.0f} | {cost.private:.0f}"
            f" | {cost.descriptors} | {cost.cpu:.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
