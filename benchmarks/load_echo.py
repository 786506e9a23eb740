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

    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning", log_config=None)
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        anyio.run(uvicorn.Server(config).serve, [listening])


if __name__ == "__main__":
    main()
