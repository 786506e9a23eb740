"""What every tool is given: the campaign's host and who is calling."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kernelarc_mcp.host.host import Host
from kernelarc_mcp.identity import caller, reader


@dataclass(frozen=True)
class Desk:
    """One server process's access to its campaign."""

    host: Host
    launched_as: str
    """Agent named at launch (stdio); empty where a bearer token says who calls (HTTP)."""
    notify: Callable[[], Awaitable[None]]
    """Tells subscribers at once what this call changed."""

    def caller(self) -> str:
        """Return the calling agent's name."""
        return caller(self.launched_as)

    def reader(self) -> str:
        """Return the calling agent's name, or that of an onlooker, who may read but takes no part."""
        return reader(self.launched_as)
