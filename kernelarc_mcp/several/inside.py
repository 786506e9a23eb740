"""What lies below a campaign's path: its application while there is one, and its page always."""

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kernelarc_mcp.dashboard.routes import FILES, page, page_file
from kernelarc_mcp.web import front
from kernelarc_mcp.web.answers import not_the_endpoint
from kernelarc_mcp.web.paths import path_in

HEALTH: Final = "/health"
_PAGE: Final = Starlette(
    routes=[
        Route("/", page, methods=["GET"]),
        Route(f"{FILES}/{{name}}", page_file, methods=["GET"]),
    ],
    exception_handlers={405: not_the_endpoint},
)


def needed(path: str) -> str:
    """Return what a path below a campaign's needs: a token for all but the page, which tells nothing.

    So a stranger meets the same at the name of a campaign as at any other name.
    """
    if path in ("", "/") or path.startswith(f"{FILES}/"):
        return ""
    return front.needed(path) or "any"


class Inside:
    """Hands requests to the application that there is now."""

    def __init__(self, health: Callable[[Request], Awaitable[Response]] | None = None) -> None:
        """`health` answers at its own path; nobody gets there where there is no campaign."""
        self._health = health
        self.app: ASGIApp | None = None
        """Of the campaign while it is served."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_in(scope)
        if path == "":
            # The page asks for what is beside it. With a dot, as a name might look like a scheme.
            name = scope["path"].rpartition("/")[2]
            await RedirectResponse(f"./{name}/", 308)(scope, receive, send)
        elif path == HEALTH and self._health is not None and scope["method"] == "GET":
            answer = await self._health(Request(scope, receive))
            await answer(scope, receive, send)
        else:
            await (self.app or _PAGE)(scope, receive, send)
