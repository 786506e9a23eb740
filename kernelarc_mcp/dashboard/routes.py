"""The page's addresses: its files for everybody, its data for whoever has a token."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from kernelarc_mcp.dashboard.glance import Followed, glance, served
from kernelarc_mcp.dashboard.stream import stream_page
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.web.front import DATA

FILES: Final = "/dashboard/files"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
_NAMES: Final = (
    "words.js",
    "charts.js",
    "parts.js",
    "trust.js",
    "dashboard.js",
    "dashboard.css",
    "echarts.min.js",
)
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_DIGITS: Final = 9
_AT_ONCE: Final = 200
"""Verdicts that are read while nobody else may look."""
_LOOK_SECONDS: Final = 0.5
_SILENCE_SECONDS: Final = 15.0
"""Longest silence of the stream of changes: a page that hears less knows that it is cut off."""


class Dashboard:
    """Answers the page's requests about one campaign."""

    def __init__(self, campaign: Campaign) -> None:
        """Show this campaign."""
        self._campaign = campaign
        self._followed = Followed.of(campaign)
        self._lock = threading.Lock()
        self._made: tuple[object, bytes] | None = None

    def addresses(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Return what answers a GET of each path."""
        return {
            "/": page,
            f"{FILES}/{{name}}": page_file,
            DATA: self.data,
            f"{DATA}/changes": self.changes,
            f"{DATA}/submissions": self.submissions,
        }

    async def prepare(self) -> None:
        """Read what there is, so that the first page need not wait; others may read meanwhile."""
        while not await anyio.to_thread.run_sync(self._read_on):
            pass
        await anyio.to_thread.run_sync(self._body)

    async def data(self, _: Request) -> Response:
        """Return everything the page shows, as JSON."""
        body = await anyio.to_thread.run_sync(self._body)
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})

    async def submissions(self, request: Request) -> Response:
        """Return a page of attempts, those with a number below `before`."""
        given = request.query_params.get("before", "")
        if not (given.isascii() and given.isdecimal() and len(given) <= _DIGITS):
            return Response("before: expected an attempt's number\n", status_code=400)
        page = await anyio.to_thread.run_sync(self._page, int(given))
        return Response(page, media_type="application/json", headers={"Cache-Control": "no-store"})

    async def changes(self, _: Request) -> Response:
        """Return a stream of server-sent events: one at once, and one for every change."""
        return StreamingResponse(
            self._changes(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    def _read_on(self) -> bool:
        with self._lock, self._campaign.journal.reading() as state:
            return self._followed.progress.advance(state, _AT_ONCE)

    def _page(self, before: int) -> bytes:
        with self._lock, self._campaign.journal.reading() as state:
            return stream_page(state, before).model_dump_json().encode()

    def _body(self) -> bytes:
        with self._lock, self._campaign.journal.reading() as state:
            mark = self._mark()
            # Many pages may be open; what they show is made once for each change.
            if self._made is None or self._made[0] != mark:
                shown = glance(self._campaign, state, self._followed)
                self._made = (mark, shown.model_dump_json().encode())
            return self._made[1]

    def _mark(self) -> object:
        """Return what is another after any change that the page shows."""
        ledger = self._campaign.journal.ledger
        # The one counts what other processes wrote, the other what this one did.
        others = ledger.connection.execute("PRAGMA data_version").fetchone()[0]
        wrote = ledger.connection.total_changes
        return ledger.last_seq(), others, wrote, served(self._campaign)

    async def _changes(self) -> AsyncIterator[bytes]:
        seen: object = None
        silent = 0.0
        while True:
            seq, mark = await anyio.to_thread.run_sync(self._marked)
            if mark != seen:
                seen, silent = mark, 0.0
                yield f"event: change\ndata: {seq}\n\n".encode()
            elif silent >= _SILENCE_SECONDS:
                silent = 0.0
                yield b": still here\n\n"
            await anyio.sleep(_LOOK_SECONDS)
            silent += _LOOK_SECONDS

    def _marked(self) -> tuple[int, object]:
        with self._lock, self._campaign.journal.reading() as state:
            return state.seq, self._mark()


async def page(_: Request) -> Response:
    """Return the page itself, which holds nothing of the campaign."""
    return static_file("dashboard.html")


async def page_file(request: Request) -> Response:
    """Return one of the page's files."""
    name = request.path_params["name"]
    if name not in _NAMES:
        return Response("no such file\n", status_code=404)
    return static_file(name)


def static_file(name: str) -> Response:
    """Return a file of the package, for a page that loads nothing from elsewhere."""
    content = files("kernelarc_mcp").joinpath("static", name).read_bytes()
    return Response(
        content,
        media_type=_TYPES[name[name.rindex(".") :]],
        headers={**_HEADERS, "Cache-Control": "no-cache"},
    )
