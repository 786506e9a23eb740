"""A client that submits until it is told to stop, and after a kill of anything goes on where it was.

    python stack_client.py --agent ada --seed 1 --notes DIR --stop FILE (--url URL | --folder CAMPAIGN)

Under DIR it appends to AGENT.sent before it submits, and to AGENT.answers what it was answered.
"""

import argparse
import json
import os
import random
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

_CALL_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 0.3
_PYTHON: Final = "import torch\n\n\ndef run(x, scale):\n    "
_CPP: Final = """#include <cmath>
#include <dlpack/dlpack.h>
extern "C" int run(const DLTensor* x, double scale, DLTensor* y) {
  const float* in = static_cast<const float*>(x->data);
  float* out = static_cast<float*>(y->data);
  volatile int number = NUMBER;
  for (int times = 0; times < 20; ++times)
    for (int64_t i = 0; i < x->shape[0]; ++i) out[i] = std::tanh(in[i]) * scale;
  return number - NUMBER;
}
"""
SORTS: Final[dict[str, tuple[str, str]]] = {
    "right": ("kernel.py", _PYTHON + "return torch.tanh(x).mul_(scale + 0 * NUMBER)\n"),
    "slower": (
        "kernel.py",
        _PYTHON
        + "for _ in range(40):\n        y = torch.tanh(x)\n    return y * scale + 0 * NUMBER\n",
    ),
    "wrong": ("kernel.py", _PYTHON + "return x * scale + NUMBER\n"),
    "compiled": ("kernel.cpp", _CPP),
    "does not compile": ("kernel.cpp", _CPP.replace("return number", "return nothing")),
    "does not load": ("kernel.py", "import no_such_module_NUMBER\n" + _PYTHON + "return x\n"),
    "no code": ("kernel.py", "def run(:  # NUMBER\n"),
}
_WEIGHTS: Final = (1, 1, 2, 4, 2, 1, 1)


def order(seed: int, agent: str, number: int) -> dict[str, str]:
    """Return what an agent submits as its `number`-th attempt."""
    choice = random.Random(f"{seed} {agent} {number}")
    (sort,) = choice.choices(list(SORTS), _WEIGHTS)
    filename, text = SORTS[sort]
    unique = str(zlib.crc32(f"{agent} {number}".encode()) % 10**9)
    return {
        "source": text.replace("NUMBER", unique),
        "filename": filename,
        "summary": sort,
        "request_id": f"{agent}-{number}",
    }


@asynccontextmanager
async def connected(asked: argparse.Namespace) -> AsyncIterator[Client]:
    """Yield a client of the HTTP server, or of a stdio server of its own."""
    if asked.url:
        headers = {"Authorization": f"Bearer {os.environ['KERNELARC_TOKEN']}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=_CALL_SECONDS) as http,
            Client(streamable_http_client(asked.url, http_client=http)) as client,
        ):
            yield client
        return
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "kernelarc_mcp", "serve", str(asked.folder)],
        env={**os.environ, "KERNELARC_AGENT": asked.agent},
    )
    async with Client(server) as client:
        yield client


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the structured answer of a call that must be accepted."""
    result = await client.call_tool(tool, arguments, read_timeout_seconds=_CALL_SECONDS)
    if result.is_error or result.structured_content is None:
        raise SystemExit(f"{tool} was refused: {result.content}")
    answer: dict[str, Any] = result.structured_content
    return answer


async def work(client: Client, asked: argparse.Namespace) -> None:
    """Submit one after the other, until the stop file is there."""
    await call(client, "get_brief", {})
    notes: Path = asked.notes
    while True:
        answered = len(_lines(notes / f"{asked.agent}.answers"))
        sent = len(_lines(notes / f"{asked.agent}.sent"))
        if sent == answered:
            if asked.stop.exists():
                return
            while asked.pause is not None and asked.pause.exists():
                await anyio.sleep(1.0)
            _append(notes / f"{asked.agent}.sent", f"{asked.agent}-{sent + 1}")
        what = order(asked.seed, asked.agent, answered + 1)
        view = await call(client, "submit_candidate", {**what, "wait_seconds": 2})
        turn = 0
        while view["state"] != "done":
            turn += 1
            waited = {"ticket": view["ticket"], "turn": turn, "wait_seconds": 5}
            view = await call(client, "wait_submission", waited)
        told = [asked.agent, what["request_id"], view["ticket"], view["verdict"], view["reason"]]
        _append(notes / f"{asked.agent}.answers", json.dumps(told))


async def main(asked: argparse.Namespace) -> None:
    """Work through any number of connections."""
    while True:
        ended = False
        try:
            async with connected(asked) as client:
                await work(client, asked)
                ended = True
        except* (MCPError, httpx2.HTTPError, OSError, anyio.BrokenResourceError) as lost:
            print(f"{asked.agent}: {lost.exceptions}", file=sys.stderr, flush=True)
        except* (anyio.ClosedResourceError, anyio.EndOfStream, TimeoutError) as lost:
            print(f"{asked.agent}: {lost.exceptions}", file=sys.stderr, flush=True)
        if ended:
            return
        await anyio.sleep(_AGAIN_SECONDS)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _append(path: Path, line: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line.encode() + b"\n")
    finally:
        os.close(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--stop", type=Path, required=True)
    parser.add_argument("--pause", type=Path, help="nothing is submitted while it exists")
    parser.add_argument("--url", default="")
    parser.add_argument("--folder", type=Path)
    anyio.run(main, parser.parse_args())
