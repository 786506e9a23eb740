"""`kernelarc-mcp serve`, whose server also has what the conformance suite asks for by name.

python -m conformance DIR --http PORT ...
"""

import sys
from typing import Any

from conformance import announcements, contents, handlers, questions, rounds
from mcp.server import MCPServer

from kernelarc_mcp import server as product
from kernelarc_mcp.cli.main import main

_build = product.build_server


def with_fixtures(*args: Any, **kwargs: Any) -> MCPServer[None]:
    """Return the product's server of a campaign, with the fixtures beside its own tools."""
    server = _build(*args, **kwargs)
    for part in (contents, questions, rounds, announcements, handlers):
        part.add(server)
    return server


if __name__ == "__main__":
    # `serve` looks the factory up when it is called: door, tokens and options stay its own.
    product.build_server = with_fixtures
    sys.argv.insert(1, "serve")
    main()
