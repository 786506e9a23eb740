"""All campaigns of a server behind one address: whose path a request asks for decides who answers it."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kernelarc_mcp.host.tokens import Holder
from kernelarc_mcp.http import Rules
from kernelarc_mcp.logs import ABOUT
from kernelarc_mcp.pauses import collect_between
from kernelarc_mcp.several.inside import Inside, needed
from kernelarc_mcp.several.overview import CAMPAIGNS, Overview
from kernelarc_mcp.several.places import BELOW
from kernelarc_mcp.several.served import Opening, ServedCampaign
from kernelarc_mcp.web import answers
from kernelarc_mcp.web.connections import Connections
from kernelarc_mcp.web.front import MCP, METRICS, Front, Tokens
from kernelarc_mcp.web.listening import listening, run
from kernelarc_mcp.web.metrics import watch_process
from kernelarc_mcp.web.rates import BURST_SECONDS, Rates
from kernelarc_mcp.web.sessions import Sessions
from kernelarc_mcp.web.tallies import Tallies


async def serve_several(
    openings: Sequence[Opening],
    address: str,
    port: int,
    *,
    rules: Rules,
    on_listening: Callable[[str], None],
    on_stopping: Callable[[], None],
) -> int:
    """Serve until SIGTERM or SIGINT; port 0 takes a free one, told to `on_listening` as a URL.

    Return the signal's number, 0 without one, where it did not end the process.

    Each campaign keeps its own tokens, limits and dispatcher. Raises CannotListen.
    """
    registry = CollectorRegistry()
    tallies = Tallies(registry)
    connections = Connections(tallies, rules.receive_seconds)
    watch_process(registry, connections)
    campaigns = [ServedCampaign(one, rules, connections) for one in openings]
    for one in campaigns:
        one.elsewhere = partial(_known, [other for other in campaigns if other is not one])
    together = Together(campaigns, rules, connections, registry, tallies)

    def stopping() -> None:
        for one in campaigns:
            one.stop()
        on_stopping()

    with listening(address, port) as (found, url):
        on_listening(url)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect_between)
            ended_by = await run(together, connections, found, stopping)
            tasks.cancel_scope.cancel()
        return ended_by


class Together:
    """Finds the campaign by the path; what belongs to none is answered for all together."""

    def __init__(
        self,
        campaigns: Sequence[ServedCampaign],
        rules: Rules,
        connections: Connections,
        registry: CollectorRegistry,
        tallies: Tallies,
    ) -> None:
        """`registry` and `tallies` count what belongs to no campaign."""
        self._campaigns: Final = {one.name: one for one in campaigns}
        overview = Overview(campaigns, registry, open_to_all=rules.open_metrics)
        routes = overview.routes()
        paths = [route.path for route in routes if "{" not in route.path]
        paths += [f"{BELOW}/NAME/", f"{BELOW}/NAME{MCP}"]

        async def nothing_here(_: Request, __: Exception) -> Response:
            return answers.no_such_path(sorted(paths))

        hall = Starlette(
            routes=routes,
            lifespan=self._running,
            exception_handlers={404: nothing_here, 405: answers.not_the_endpoint},
        )

        def front(app: Inside | Starlette, tokens: Tokens, needs: Callable[[str], str]) -> Front:
            return Front(
                app,
                tokens=tokens,
                names=rules.names,
                rates=Rates(rules.rate, BURST_SECONDS * rules.rate),
                connections=connections,
                sessions=Sessions(),
                tallies=tallies,
                body_seconds=rules.receive_seconds,
                open_paths=frozenset({METRICS} if rules.open_metrics else ()),
                needs=needs,
            )

        self._hall = front(hall, _AnyToken(campaigns), _hall_needs)
        self._nobody = front(Inside(), _NoToken(), needed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        name = path.removeprefix(f"{BELOW}/").partition("/")[0] if path.startswith(BELOW) else ""
        if scope["type"] != "http" or not name or not path.startswith(f"{BELOW}/"):
            await self._hall(scope, receive, send)
            return
        campaign = self._campaigns.get(name)
        below = {**scope, "root_path": f"{scope.get('root_path', '')}{BELOW}/{name}"}
        if campaign is None:
            await self._nobody(below, receive, send)
            return
        about = ABOUT.set(name)
        try:
            await campaign.front(below, receive, send)
        finally:
            ABOUT.reset(about)

    async def watch(self) -> None:
        """End what revoked tokens hold open of what belongs to no campaign, until cancelled."""
        await self._hall.watch()

    def end_streams(self) -> None:
        """End everything that is open, as the server stops."""
        for front in (self._hall, *(one.front for one in self._campaigns.values())):
            front.end_streams()

    @asynccontextmanager
    async def _running(self, _: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            for campaign in self._campaigns.values():
                tasks.start_soon(campaign.run)
            for campaign in self._campaigns.values():
                await campaign.ready.wait()
            yield
            tasks.cancel_scope.cancel()


class _NoToken:
    """The tokens of a campaign that is not there."""

    def holder_of_token(self, token: str) -> Holder | None:
        return None

    def valid_tokens(self, hashes: Iterable[str]) -> set[str]:
        return set()


class _AnyToken:
    """The tokens of all campaigns; a holder's name says of which one it is."""

    def __init__(self, campaigns: Sequence[ServedCampaign]) -> None:
        self._campaigns = campaigns

    def holder_of_token(self, token: str) -> Holder | None:
        for one in self._campaigns:
            if (holder := one.knows(token)) is not None:
                return Holder(f"{one.name}/{holder.name}", holder.role, holder.hash)
        return None

    def valid_tokens(self, hashes: Iterable[str]) -> set[str]:
        asked = set(hashes)
        return set().union(*(one.valid_tokens(asked) for one in self._campaigns))


def _known(campaigns: Sequence[ServedCampaign], token: str) -> bool:
    return any(one.knows(token) is not None for one in campaigns)


def _hall_needs(path: str) -> str:
    return "any" if path in (METRICS, CAMPAIGNS) else ""
