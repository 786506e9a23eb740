"""Reading a request's body whole: of bounded length, in bounded time, and repaired."""

import anyio
from starlette.types import Message, Receive

from kernelarc_mcp.wire import repair

LIMIT = 4 * 1024 * 1024
"""Bytes; a submission's sources are far smaller."""


class LargeBody(Exception):
    """The body is above the limit."""


class SlowBody(Exception):
    """The body was not complete in time."""


class ClientGone(Exception):
    """The client closed the connection before its body was complete."""


async def whole_body(receive: Receive, declared: str | None, seconds: float) -> bytes:
    """Return the body; LargeBody, SlowBody or ClientGone where there is none to serve.

    `declared` is the Content-Length header, which refuses a large body before it is sent;
    `seconds` are for all of the body, however steadily it drips.
    """
    if declared is not None and declared.isdecimal() and int(declared) > LIMIT:
        raise LargeBody
    body = bytearray()
    with anyio.move_on_after(seconds):
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > LIMIT:
                raise LargeBody
            if not message.get("more_body", False):
                return repair(bytes(body))
    raise SlowBody


class HandedOver:
    """Gives an application a body that was read already, then what the connection says."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
