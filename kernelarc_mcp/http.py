"""Serving many clients over streamable HTTP, on loopback unless told otherwise."""

import socket
from collections.abc import Callable

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelarc_mcp.wire import repair

PATH = "/mcp"
MAX_BODY = 4 * 1024 * 1024
_GRACE = 2
"""Seconds a stop waits for open streams; a client that listens would hold it up for ever."""
_TOKEN_HELP = (
    b'{"error":"invalid_token","error_description":"Send the header Authorization: Bearer TOKEN '
    b'with a token of this campaign (kernelarc-mcp new and agent add print them once)."}'
)


class CannotListen(Exception):
    """The address is taken, or not one of this machine."""


async def serve_http(
    server: MCPServer[None],
    address: str,
    port: int,
    *,
    allowed_hosts: list[str],
    on_listening: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; port 0 takes a free one, told to `on_listening` as a URL.

    Raises CannotListen.
    """
    with _listen(address, port) as listening:
        bound = listening.getsockname()[1]
        shown = f"[{address}]" if ":" in address else address
        app = _app(server, allowed_hosts)
        config = uvicorn.Config(
            app, log_level="warning", timeout_graceful_shutdown=_GRACE, log_config=None
        )
        on_listening(f"http://{shown}:{bound}{PATH}")
        await uvicorn.Server(config).serve(sockets=[listening])


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise CannotListen(f"cannot listen on {address}:{port}: {error.strerror}") from error
    return listening


def _app(server: MCPServer[None], allowed_hosts: list[str]) -> ASGIApp:
    names = ["127.0.0.1", "localhost", "[::1]", *allowed_hosts]
    security = TransportSecuritySettings(
        allowed_hosts=[f"{name}:*" for name in names],
        allowed_origins=[f"http://{name}:*" for name in names],
    )
    inner = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=security, max_request_body_size=MAX_BODY
    )
    return _Front(inner)


class _Front:
    """Repairs request bodies and tells a client without a token what to send."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        await self._inner(scope, _RepairedBody(receive), _HelpfulRefusal(send))


class _RepairedBody:
    """Hands the inner application its request's body whole and repaired."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._handed_over = False

    async def __call__(self) -> Message:
        if self._handed_over:
            return await self._receive()
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            more = bool(message.get("more_body", False))
            if more and len(body) <= MAX_BODY:
                continue
            self._handed_over = True
            # Too large: passed on as it is, and refused with 413 behind us.
            whole = repair(bytes(body)) if not more else bytes(body)
            return {"type": "http.request", "body": whole, "more_body": more}


class _HelpfulRefusal:
    """Replaces the body of a 401: clients show it to their user."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._refused = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 401:
            self._refused = True
            kept = [(k, v) for k, v in message["headers"] if k.lower() != b"content-length"]
            length = (b"content-length", str(len(_TOKEN_HELP)).encode())
            message = {**message, "headers": [*kept, length]}
        elif message["type"] == "http.response.body" and self._refused:
            message = {**message, "body": _TOKEN_HELP}
        await self._send(message)
