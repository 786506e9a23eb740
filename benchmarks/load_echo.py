"""A bare SDK server to compare with: one tool echoes, one says again what it was given. Prints its URL.

    python -m benchmarks.load_echo ANSWERS

ANSWERS is a JSON file of answers by name, which `recite` returns as text and as structure, as they are in memory.
"""

import json
import socket
import sys
from pathlib import Path

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.types import CallToolResult, TextContent


def main() -> None:
    """Serve on a free port of loopback until ended."""
    server = MCPServer[None]("echo", log_level="WARNING")
    structures = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    texts = {name: json.dumps(one, separators=(",", ":")) for name, one in structures.items()}

    @server.tool()
    async def echo(text: str) -> str:
        """Return the text."""
        return text

    @server.tool()
    async def recite(name: str) -> CallToolResult:
        """Return the answer of that name."""
        text = TextContent(text=texts[name])
        return CallToolResult(content=[text], structured_content=structures[name])

    # As uvicorn itself would open it: by protocol, so that asyncio sends at once.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning", log_config=None)
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        anyio.run(uvicorn.Server(config).serve, [listening])


if __name__ == "__main__":
    main()
