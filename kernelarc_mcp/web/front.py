"""Stands before the application: nothing reaches it that is not from somebody it may serve."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelarc_mcp.host.tokens import Holder
from kernelarc_mcp.tokens import access_of, principal
from kernelarc_mcp.web import answers
from kernelarc_mcp.web.bodies import (
    LIMIT,
    ClientGone,
    HandedOver,
    LargeBody,
    SlowBody,
    whole_body,
)
from kernelarc_mcp.web.connections import Connections
from kernelarc_mcp.web.exchange import SESSION, Exchange
from kernelarc_mcp.web.names import Names
from kernelarc_mcp.web.paths import path_in
from kernelarc_mcp.web.rates import Rates
from kernelarc_mcp.web.sessions import NoRoom, Sessions
from kernelarc_mcp.web.tallies import Tallies

MCP: Final = "/mcp"
METRICS: Final = "/metrics"
MANAGE: Final = "/manage"
DATA: Final = "/dashboard/data"
"""What the page shows, which any holder may read."""
AT_ONCE: Final = 64
"""Requests of one holder that may be open at the same time, waiting and listening ones too."""
_VERSION: Final = "mcp-protocol-version"
_LOOK_SECONDS: Final = 1.0
"""Within which a revoked token's open streams end."""
_BUSY_SECONDS: Final = 5.0


class Unavailable(Exception):
    """What the request is for cannot be had now; the message says why, as the caller may read it."""


class Tokens(Protocol):
    """Whom tokens belong to, as the campaign knows it now."""

    def holder_of_token(self, token: str) -> Holder | None:
        """Return whom a token belongs to; None for a stranger.

        Unavailable where that cannot be known, or where nothing can be served to its holder.
        """

    def valid_tokens(self, hashes: Iterable[str]) -> set[str]:
        """Return those of the hashes whose tokens are not revoked."""


def needed(path: str) -> str:
    """Return what a path of one campaign's server needs: `admin`, `any` token, or nothing."""
    if path == MANAGE or path.startswith(f"{MANAGE}/"):
        return "admin"
    if path == DATA or path.startswith(f"{DATA}/"):
        return "any"
    return "any" if path in (MCP, METRICS) else ""


class Front:
    """Checks names, tokens, rates, sessions and bodies, in this order, the cheapest first.

    Without `tokens` everybody is served as one holder; so an application is tried that has none.
    """

    def __init__(
        self,
        inner: ASGIApp,
        *,
        tokens: Tokens | None,
        names: Names,
        rates: Rates,
        connections: Connections,
        sessions: Sessions,
        tallies: Tallies,
        body_seconds: float,
        open_paths: frozenset[str] = frozenset(),
        needs: Callable[[str], str] = needed,
    ) -> None:
        """`needs` says what a path needs, as `needed` does; those of `open_paths` need nothing."""
        self._inner = inner
        self._tokens = tokens
        self._names = names
        self._rates = rates
        self._connections = connections
        self._sessions = sessions
        self._tallies = tallies
        self._body_seconds = body_seconds
        self._open_paths = open_paths
        self._needs = needs
        self._running: set[Exchange] = set()
        self._at_once: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        client = scope.get("client")
        with self._connections.serving(None if client is None else tuple(client)) as serving:
            headers = Headers(scope=scope)
            if (refusal := self._misaddressed(headers)) is not None:
                await refusal(scope, receive, send)
                return
            path = path_in(scope)
            needed = "" if path in self._open_paths else self._needs(path)
            if not needed:
                await self._inner(scope, receive, send)
                return
            try:
                holder = self._holder(headers)
            except Unavailable as why:
                self._tallies.refused("unavailable")
                await answers.unavailable(str(why))(scope, receive, send)
                return
            if holder is None:
                await answers.no_valid_token()(scope, receive, send)
                return
            serving.known = True
            if self._tokens is not None:
                scope["user"] = AuthenticatedUser(access_of(holder))
            if needed == "admin" and holder.role != "admin":
                self._tallies.refused("role")
                await answers.wrong_role(needed)(scope, receive, send)
                return
            await self._let_in(holder, Exchange(scope, send, holder.hash), scope, receive)

    async def watch(self) -> None:
        """End what revoked tokens hold open, until cancelled."""
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            hashes = {exchange.token for exchange in self._running}
            if self._tokens is None or not hashes:
                continue
            revoked = hashes - self._tokens.valid_tokens(hashes)
            self._end_all(revoked, answers.no_valid_token)

    def end_streams(self, instead: Callable[[], Response] = answers.stopping) -> None:
        """End everything that is open, as the server stops; `instead` answers what has no answer yet."""
        self._end_all({exchange.token for exchange in self._running}, instead)

    def _end_all(self, tokens: set[str], instead: Callable[[], Response]) -> None:
        for exchange in [one for one in self._running if one.token in tokens]:
            exchange.end(instead())

    def _misaddressed(self, headers: Headers) -> Response | None:
        if not self._names.knows_host(headers.get("host")):
            self._tallies.refused("host")
            return answers.not_for("Host", 421)
        if not self._names.knows_origin(headers.get("origin")):
            self._tallies.refused("origin")
            return answers.not_for("Origin", 403)
        return None

    def _holder(self, headers: Headers) -> Holder | None:
        if self._tokens is None:
            return Holder("", "agent", "")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            self._tallies.refused("no_token")
            return None
        holder = self._tokens.holder_of_token(token)
        if holder is None:
            self._tallies.refused("bad_token")
        return holder

    async def _let_in(
        self, holder: Holder, exchange: Exchange, scope: Scope, receive: Receive
    ) -> None:
        name = principal(holder)
        wait = self._rates.wait(name)
        if wait:
            self._tallies.refused("rate")
            said = "More requests per second than one token's holder may send"
            await exchange.answer(answers.too_much(said, wait), receive)
            return
        if self._at_once[name] >= AT_ONCE:
            self._tallies.refused("requests")
            said = f"{AT_ONCE} requests of this token's holder are open already"
            await exchange.answer(answers.too_much(said, _BUSY_SECONDS), receive)
            return
        with self._counted(name, exchange):
            if scope["method"] == "POST":
                body = await self._body(exchange, receive)
                if body is None:
                    return
                receive = HandedOver(body, receive)
            await self._in_session(name, exchange, scope, receive)

    @contextmanager
    def _counted(self, name: str, exchange: Exchange) -> Iterator[None]:
        self._at_once[name] += 1
        self._running.add(exchange)
        try:
            yield
        finally:
            self._running.discard(exchange)
            self._at_once[name] -= 1
            if not self._at_once[name]:
                del self._at_once[name]

    async def _body(self, exchange: Exchange, receive: Receive) -> bytes | None:
        """Return the request's body; None where it was answered already, or nobody waits."""
        try:
            declared = exchange.headers.get("content-length")
            return await whole_body(receive, declared, self._body_seconds)
        except LargeBody:
            self._tallies.refused("large_body")
            await exchange.answer(answers.large_body(LIMIT), receive)
        except SlowBody:
            self._tallies.refused("slow_body")
            await exchange.answer(answers.slow_body(self._body_seconds), receive)
        except ClientGone:
            pass
        return None

    async def _in_session(
        self, name: str, exchange: Exchange, scope: Scope, receive: Receive
    ) -> None:
        session = exchange.headers.get(SESSION, "")
        if path_in(scope) == MCP and session:
            with self._sessions.using(name, session):
                await exchange.run(self._inner, receive)
            if exchange.status == 404 or (scope["method"] == "DELETE" and exchange.status == 200):
                self._sessions.ended(name, session)
            return
        version = exchange.headers.get(_VERSION)
        later_era = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
        if path_in(scope) != MCP or later_era:
            await exchange.run(self._inner, receive)
            return
        try:
            with self._sessions.opening(name) as old:
                if old:
                    await self._end_session(old, scope)
                await exchange.run(self._inner, receive)
                if exchange.session and exchange.status < 400:
                    self._sessions.opened(name, exchange.session)
        except NoRoom:
            self._tallies.refused("sessions")
            said = "All sessions of this token's holder are in use"
            await exchange.answer(answers.too_much(said, _BUSY_SECONDS), receive)

    async def _end_session(self, old: str, scope: Scope) -> None:
        """Let the application end a session, as its client could."""
        kept = [(k, v) for k, v in scope["headers"] if k in (b"host", b"authorization")]
        ending = {**scope, "method": "DELETE", "headers": [*kept, (SESSION.encode(), old.encode())]}
        await self._inner(ending, _nothing_more, _to_nobody)


async def _nothing_more() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _to_nobody(_: Message) -> None:
    pass
