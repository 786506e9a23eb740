"""The application behind the front: the protocol at one path, everything else beside it."""

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from kernelarc_mcp.web.paths import path_in


class Protocol:
    """Hands the protocol's requests to the SDK at once, the others to the whole application.

    The application's own layers would look at a request's token a second time, search a route and
    stand ready for faults that the SDK answers itself. The front has let the caller in and says in
    the scope's `user` who it is, which is all that the SDK asks for.
    """

    def __init__(self, path: str, protocol: ASGIApp, rest: ASGIApp) -> None:
        """Serve `protocol` at `path` and `rest`, with the application's start and end, elsewhere."""
        self._path = path
        self._protocol = AuthContextMiddleware(protocol)
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and path_in(scope) == self._path:
            await self._protocol(scope, receive, send)
        else:
            await self._rest(scope, receive, send)
