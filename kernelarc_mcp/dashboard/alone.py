"""The dashboard without a campaign's server: it only reads, and its one token is its own."""

import hashlib
import secrets
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.routing import Route

from kernelarc_mcp.dashboard.routes import Dashboard
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.tokens import Holder
from kernelarc_mcp.web.connections import Connections
from kernelarc_mcp.web.front import Front
from kernelarc_mcp.web.listening import listening, run
from kernelarc_mcp.web.names import Names
from kernelarc_mcp.web.rates import Rates
from kernelarc_mcp.web.sessions import Sessions
from kernelarc_mcp.web.tallies import Tallies

RECEIVE_SECONDS = 15.0


class OneToken:
    """Knows one token, made for this process; its holder only reads."""

    def __init__(self) -> None:
        """Make the token."""
        self.token = f"ka_{secrets.token_urlsafe(32)}"
        self._holder = Holder("looker", "viewer", _hash(self.token))

    def holder_of_token(self, token: str) -> Holder | None:
        """Return whom a token belongs to; None for a stranger."""
        known = secrets.compare_digest(_hash(token), self._holder.hash)
        return self._holder if known else None

    def valid_tokens(self, hashes: Iterable[str]) -> set[str]:
        """Return those of the hashes that are the token's."""
        return {self._holder.hash}.intersection(hashes)


async def show(
    campaign: Campaign, address: str, port: int, names: Names, on_listening: Callable[[str], None]
) -> None:
    """Show a campaign until SIGTERM or SIGINT; `on_listening` is told the link that opens it.

    Nothing is judged and nothing written. Raises CannotListen.
    """
    token = OneToken()
    tallies = Tallies(CollectorRegistry())
    connections = Connections(tallies, RECEIVE_SECONDS)
    dashboard = Dashboard(campaign)
    routes = [Route(path, answer) for path, answer in dashboard.addresses().items()]
    entrance = Front(
        Starlette(routes=routes),
        tokens=token,
        names=names,
        rates=Rates(),
        connections=connections,
        sessions=Sessions(),
        tallies=tallies,
        body_seconds=RECEIVE_SECONDS,
    )
    with listening(address, port) as (found, url):
        await dashboard.prepare()
        on_listening(f"{url}/#token={token.token}")
        await run(entrance, connections, found)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
