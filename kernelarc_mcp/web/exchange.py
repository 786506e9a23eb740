"""One request with its answer: what was said so far, and how it is ended from outside."""

from contextlib import suppress

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION = "mcp-session-id"


class Exchange:
    """Passes an application's answer on and remembers how far it has come."""

    def __init__(self, scope: Scope, send: Send, token: str) -> None:
        """Take `token` as the hash of the token that the request came with."""
        self.headers = Headers(scope=scope)
        self.token = token
        self.status = 0
        """Of the answer; 0 until there is one."""
        self.session = ""
        """The session that the answer names."""
        self._scope = scope
        self._send = send
        self._finished = False
        self._instead: Response | None = None
        self._cancelling = anyio.CancelScope()

    async def run(self, app: ASGIApp, receive: Receive) -> None:
        """Let `app` answer; where `end` is called, end a stream that has begun, else say why.

        A stream that `app` leaves open is ended as well: so the client sees that it is whole.
        """
        with self._cancelling:
            await app(self._scope, receive, self._pass_on)
        if self._finished:
            return
        # The client may be gone as well.
        with suppress(OSError):
            if self.status:
                await self._pass_on({"type": "http.response.body", "body": b""})
            elif self._instead is not None and self._cancelling.cancelled_caught:
                await self.answer(self._instead, receive)

    async def answer(self, response: Response, receive: Receive) -> None:
        """Answer without the application."""
        await response(self._scope, receive, self._pass_on)

    def end(self, instead: Response) -> None:
        """End the exchange, saying `instead` where nothing was answered yet.

        A listening client would hold it open for ever.
        """
        self._instead = instead
        self._cancelling.cancel()

    async def _pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.session = Headers(raw=message["headers"]).get(SESSION, "")
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._finished = True
        await self._send(message)
