"""One campaign of a server: opened, served, and opened again after a fault that the others never notice."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import anyio
from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from kernelarc_mcp.dashboard.routes import Dashboard
from kernelarc_mcp.host import tokens
from kernelarc_mcp.host.errors import CampaignError, HostError, LedgerBroken
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.journal import Journal
from kernelarc_mcp.host.ledger import Ledger
from kernelarc_mcp.host.storage import storage_faults
from kernelarc_mcp.host.tokens import Holder
from kernelarc_mcp.http import Rules, application, prepare
from kernelarc_mcp.logs import ABOUT
from kernelarc_mcp.server import innermost
from kernelarc_mcp.several.inside import Inside, needed
from kernelarc_mcp.several.places import Place
from kernelarc_mcp.several.standing import Standing, standing_of
from kernelarc_mcp.web import answers
from kernelarc_mcp.web.connections import Connections
from kernelarc_mcp.web.front import Front, Unavailable
from kernelarc_mcp.web.metrics import Metrics
from kernelarc_mcp.web.rates import BURST_SECONDS, Rates
from kernelarc_mcp.web.sessions import Sessions

AGAIN_SECONDS: Final = 60.0
"""Until a campaign that ended with a fault is opened again: reading a long ledger takes its time."""
_LOOK_SECONDS: Final = 1.0
_UNREADABLE: Final = "This campaign's files cannot be read now; the server's log says more."
_NOT_YET: Final = "its server begins or ends just now"
_UNEXPECTED: Final = "its server ended by a fault, which is in the server's log"

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opening:
    """A campaign as it was found when the server started."""

    place: Place
    found: Host | str
    """The campaign, or why it could not be opened."""
    open: Callable[[], Host]
    """Tries that again; raises what speaks against it."""
    build: Callable[[Host], MCPServer[None]]


class ServedCampaign:
    """Knows the campaign's tokens, lets requests in and keeps its server running."""

    def __init__(
        self,
        opening: Opening,
        rules: Rules,
        connections: Connections,
        *,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        """Nothing runs yet."""
        self.place = opening.place
        self.metrics = Metrics()
        self.ready = anyio.Event()
        """Set once it is served, or once it is known that it cannot be."""
        self.elsewhere: Callable[[str], bool] = lambda token: False
        """Says of a token whether it is another campaign's of this server."""
        self._opening = opening
        self._again = again_seconds
        self._host = opening.found if isinstance(opening.found, Host) else None
        self._fault = "" if isinstance(opening.found, Host) else opening.found
        self._inside = Inside(self._health)
        sessions = Sessions()
        self.metrics.watch(sessions)
        self.front = Front(
            self._inside,
            tokens=self,
            names=rules.names,
            rates=Rates(rules.rate, BURST_SECONDS * rules.rate),
            connections=connections,
            sessions=sessions,
            tallies=self.metrics.tallies,
            body_seconds=rules.receive_seconds,
            needs=needed,
        )

    @property
    def name(self) -> str:
        """Return its name in URLs."""
        return self.place.name

    @property
    def host(self) -> Host | None:
        """Return the campaign while it is open."""
        return self._host

    def standing(self) -> Standing:
        """Return whether it is served, and why not."""
        if self._host is None or self._inside.app is None:
            return Standing("down", self._fault or _NOT_YET)
        return standing_of(self._host)

    def stop(self) -> None:
        """Have calls that wait answered as things stand, as the server is about to end."""
        if self._host is not None:
            self._host.stopping = True

    def knows(self, token: str) -> Holder | None:
        """Return whom a token belongs to, be the campaign served or not; None if that cannot be known."""
        try:
            return self._holder(token)
        except Unavailable:
            return None

    def holder_of_token(self, token: str) -> Holder | None:
        """Return whom a token belongs to; Unavailable where the campaign cannot be served to it."""
        try:
            holder = self._holder(token)
        except Unavailable:
            # Whose it is nobody can say, but for one that is known to be another campaign's.
            if self.elsewhere(token):
                return None
            raise
        if holder is not None and (standing := self.standing()).state == "down":
            raise Unavailable(f"This campaign cannot be served: {standing.why.rstrip('.')}.")
        return holder

    def valid_tokens(self, hashes: Iterable[str]) -> set[str]:
        """Return those of the hashes whose tokens are not revoked; none where nobody can say."""
        try:
            return set() if self._host is None else self._host.valid_tokens(hashes)
        except sqlite3.Error:
            return set()

    async def run(self) -> None:
        """Serve until cancelled, whatever happens to the campaign meanwhile."""
        ABOUT.set(self.name)
        broken_from_the_start = self._host is None
        while True:
            if not broken_from_the_start:
                fault = await self._served()
                expected = isinstance(fault, HostError)
                _LOG.error("not served: %s", fault, exc_info=None if expected else fault)
                self._down(str(fault) if expected else _UNEXPECTED)
            broken_from_the_start = False
            self.ready.set()
            await anyio.sleep(self._again)

    async def _served(self) -> BaseException:
        """Serve in a task of its own, so that its fault is read here and raised nowhere."""
        task = asyncio.create_task(self._serve())
        try:
            await asyncio.wait([task])
        finally:
            if not task.done():
                task.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([task])
                if not task.cancelled() and (late := task.exception()) is not None:
                    _LOG.error("ended with a fault: %s", innermost(late), exc_info=late)
        fault = None if task.cancelled() else task.exception()
        return innermost(fault or RuntimeError("its server ended by itself"))

    async def _serve(self) -> None:
        host = self._host
        if host is None:
            # In a thread: a long ledger takes seconds, which are the others' too.
            host = await anyio.to_thread.run_sync(self._opening.open, abandon_on_cancel=True)
        server = self._opening.build(host)
        self.metrics.tools = frozenset(tool.name for tool in await server.list_tools())
        dashboard = Dashboard(host.campaign)
        app = application(server, host, dashboard, self.metrics)
        async with server.session_manager.run():
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(prepare, dashboard)
                    tasks.start_soon(self.front.watch)
                    tasks.start_soon(self._watch, host)
                    self.metrics.follow(host.campaign)
                    self._host, self._fault, self._inside.app = host, "", app
                    self.ready.set()
            finally:
                # At once: to end a guard takes a while, and nobody is to be let in meanwhile.
                self._close(self._fault or _NOT_YET)

    async def _watch(self, host: Host) -> None:
        """End the campaign's serving by a fault once only opening it again can help."""
        journal = host.campaign.journal
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            try:
                with storage_faults(host.folder):
                    journal.ledger.expect_the_same_file()
                self._look(journal)
            except HostError as fault:
                self._close(str(fault))
                raise

    def _look(self, journal: Journal) -> None:
        try:
            with journal.reading():
                pass
        except LedgerBroken:
            # Each further look would read all rows again, while the others wait.
            raise
        except HostError as fault:
            _LOG.debug("cannot be read now: %s", fault)

    def _close(self, why: str) -> None:
        self._inside.app, self._fault = None, why
        self.front.end_streams(lambda: answers.unavailable("This campaign cannot be served now."))

    def _down(self, why: str) -> None:
        self.stop()
        self._close(why)
        # Not closed: a thread may be reading yet. Nobody else knows it any more.
        self._host = None
        self.metrics.follow(None)

    def _holder(self, token: str) -> Holder | None:
        try:
            if self._host is not None:
                return self._host.holder_of_token(token)
            with closing(Ledger.open_read_only(self.place.folder)) as ledger:
                return tokens.holder_of(ledger.connection, token)
        except (CampaignError, sqlite3.Error) as error:
            _LOG.debug("tokens cannot be read: %s", error)
            raise Unavailable(_UNREADABLE) from error

    async def _health(self, _: Request) -> Response:
        standing = self.standing()
        said = {"status": standing.state} | ({"why": standing.why} if standing.why else {})
        return JSONResponse(said, 200 if standing.state == "served" else 503)
