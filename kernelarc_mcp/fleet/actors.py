"""Handles of the actors of devices and build slots, by name; looking one up takes the head some milliseconds."""

import asyncio
from typing import Any

import ray


class Actors:
    """What one stand-in has looked up."""

    def __init__(self, namespace: str) -> None:
        """Know none yet."""
        self._namespace = namespace
        self._known: dict[str, Any] = {}

    async def of(self, name: str) -> Any:
        """Return an actor's handle; ValueError or RayError where there is none."""
        known = self._known.get(name)
        if known is None:
            known = await asyncio.to_thread(ray.get_actor, name, namespace=self._namespace)
            self._known[name] = known
        return known

    def forget(self, name: str) -> None:
        """Look it up again when it is needed: it may be another one then."""
        self._known.pop(name, None)
