"""A bare SDK server with one tool that echoes: what there is to compare with. Prints its URL."""

import socket

import anyio
import uvicorn
from mcp.server import MCPServer


def main() -> None:
    """Serve on a free port of loopback until ended."""
    server = MCPServer[None]("echo", log_level="WARNING")

    @server.tool()
    async def echo(text: str) -> str:
        """Return the text."""
        return text

    # As uvicorn itself would open it: by protocol, so that asyncio sends at once.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning", log_config=None)
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        anyio.run(uvicorn.Server(config).serve, [listening])


if __name__ == "__main__":
    main()
