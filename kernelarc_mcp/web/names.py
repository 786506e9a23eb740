"""Which Host and Origin headers are believed: a browser's page elsewhere must not reach the server."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Names:
    """The names a server may be reached by, and the origins pages may call it from."""

    hosts: frozenset[str]
    origins: frozenset[str]
    """Scheme, host and port as a browser sends them, for pages that are served elsewhere."""

    @classmethod
    def of(cls, hosts: Iterable[str], origins: Iterable[str] = ()) -> "Names":
        """Return loopback's names and the given ones; ValueError for what is no name or origin."""
        for origin in origins:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path:
                raise ValueError(f"{origin!r}: expected an origin, such as https://example.org")
        bare = [host.strip("[]").casefold() for host in hosts]
        return cls(
            frozenset({*LOOPBACK, *bare}), frozenset(origin.casefold() for origin in origins)
        )

    def knows_host(self, header: str | None) -> bool:
        """Say whether a Host header names this server, on whatever port."""
        return header is not None and _host_of(f"//{header}") in self.hosts

    def knows_origin(self, header: str | None) -> bool:
        """Say whether a page of this origin may call; requests of no page have none."""
        if header is None:
            return True
        if header.casefold() in self.origins:
            return True
        return header.startswith(("http://", "https://")) and _host_of(header) in self.hosts


@lru_cache(maxsize=64)
def _host_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        # Reading the port is what finds a malformed one.
        plain = parts.port is None or parts.port >= 0
    except ValueError:
        return None
    extra = parts.username is not None or parts.path or parts.query or parts.fragment
    return parts.hostname if plain and not extra else None
