"""What the HTTP front counts, in a registry of its own."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter

CAUSES: Final = {
    "host": "the Host header names another server",
    "origin": "a page of another origin called",
    "no_token": "no bearer token",
    "bad_token": "an unknown or revoked token",
    "role": "the token's role does not allow it",
    "rate": "too many requests per second by one holder",
    "requests": "too many requests of one holder at once",
    "sessions": "too many sessions of one holder, all of them in use",
    "large_body": "a body above the limit",
    "slow_body": "a body that took too long",
    "unavailable": "the campaign cannot be served now",
    "slow_head": "a connection without a whole request for too long",
    "connections": "too many connections",
}
"""Why something is refused or ended."""


class Tallies:
    """Counters of the front."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._refused = Counter(
            "kernelarc_http_refused",
            "Requests and connections that were refused or ended, by cause.",
            ["cause"],
            registry=registry,
        )
        for cause in CAUSES:
            self._refused.labels(cause)

    def refused(self, cause: str) -> None:
        """Count a refusal; `cause` is one of CAUSES."""
        if cause not in CAUSES:
            raise ValueError(f"{cause!r}: expected one of {', '.join(CAUSES)}")
        self._refused.labels(cause).inc()
