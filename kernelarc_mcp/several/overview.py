"""What belongs to no one campaign: a page of those that a token may see, health and metrics of all."""

from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kernelarc_guard.model import Model
from kernelarc_mcp import __version__
from kernelarc_mcp.dashboard.routes import static_file
from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.several.labelled import Labelled
from kernelarc_mcp.several.served import ServedCampaign
from kernelarc_mcp.several.standing import State
from kernelarc_mcp.web.front import METRICS

CAMPAIGNS: Final = "/campaigns"
_FILES: Final = ("overview.js", "dashboard.css")


class Numbers(Model):
    """Where a campaign is, in a few numbers."""

    problem: str
    device: str
    agents: int
    attempts: int
    attempts_used: int
    queued: int
    judging: int
    record: str
    speedup: float
    """The record over the seed."""


class Row(Model):
    """One campaign of the overview."""

    name: str
    path: str
    """Of its dashboard; the protocol is at `mcp` beside it."""
    state: State
    why: str
    numbers: Numbers | None
    """None while it cannot be read."""


class Overview:
    """Answers for all campaigns, and names to a token only those it belongs to."""

    def __init__(
        self,
        campaigns: Sequence[ServedCampaign],
        registry: CollectorRegistry,
        *,
        open_to_all: bool,
    ) -> None:
        """`open_to_all`: health and metrics tell everybody of every campaign, without a token."""
        self._campaigns = campaigns
        self._registry = registry
        self._open = open_to_all

    def routes(self) -> list[Route]:
        """Return its paths."""
        return [
            Route("/", self._page, methods=["GET"]),
            Route("/overview/{name}", self._file, methods=["GET"]),
            Route(CAMPAIGNS, self._rows, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route(METRICS, self._metrics, methods=["GET"]),
        ]

    async def _page(self, _: Request) -> Response:
        return static_file("overview.html")

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        return static_file(name) if name in _FILES else Response("no such file\n", 404)

    async def _rows(self, request: Request) -> Response:
        rows = [_row(one).model_dump(mode="json") for one in self._of_token(request)]
        return JSONResponse({"campaigns": rows}, headers={"Cache-Control": "no-store"})

    async def _health(self, request: Request) -> Response:
        """Say that the process serves; which campaign does not is told to who may know of it."""
        standings = {one.name: one.standing() for one in self._campaigns}
        seen = self._campaigns if self._open else self._of_token(request)
        states = [standing.state for standing in standings.values()]
        amiss = {one.name: standings[one.name] for one in seen}
        return JSONResponse(
            {
                "status": "ok" if set(states) <= {"served"} else "degraded",
                "server": "kernelarc",
                "version": __version__,
                "campaigns": {state: states.count(state) for state in sorted(set(states))},
                "amiss": {
                    name: {"status": standing.state, "why": standing.why}
                    for name, standing in amiss.items()
                    if standing.state != "served"
                },
            }
        )

    async def _metrics(self, request: Request) -> Response:
        seen = self._campaigns if self._open else self._of_token(request)
        text = generate_latest(Labelled(self._registry, seen))
        return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    def _of_token(self, request: Request) -> list[ServedCampaign]:
        """Return the campaigns that a request's token belongs to: a copy of one knows its tokens too."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return []
        return [one for one in self._campaigns if one.knows(token) is not None]


def _row(campaign: ServedCampaign) -> Row:
    standing = campaign.standing()
    return Row(
        name=campaign.name,
        path=f"{campaign.place.path}/",
        state=standing.state,
        why=standing.why,
        numbers=None if standing.state == "down" else _numbers(campaign),
    )


def _numbers(campaign: ServedCampaign) -> Numbers | None:
    host = campaign.host
    if host is None:
        return None
    try:
        with host.campaign.journal.reading() as state:
            return Numbers(
                problem=host.settings.problem,
                device=host.settings.device,
                agents=len(state.agents),
                attempts=state.total,
                attempts_used=state.used,
                queued=len(state.queue()),
                judging=len(state.judging()),
                record=state.record.ticket,
                speedup=state.record.speedup,
            )
    except HostError:
        return None
