"""Where a campaign is served over HTTP; beside its files, for `connect`."""

import logging
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from kernelarc_guard.model import Model

FILE: Final = "served.json"
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""Addresses that mean all of a machine's -> one that its own clients can name."""

_LOG: Final = logging.getLogger(__name__)


class Served(Model):
    """What a server wrote when it began to listen, and again when it stopped."""

    url: str
    """Of the protocol, as it is reached on the server's own machine."""
    stopped: bool = False
    """Whether the server said that it ends; one that is killed says nothing."""


def remember(folder: Path, url: str) -> None:
    """Note where a campaign is served; where that cannot be written, a log says so."""
    _write(folder, Served(url=_reached(url)))


def stopped(folder: Path, url: str) -> None:
    """Note that the server at `url` ends; where another one was noted since, that one stays."""
    if remembered(folder) == Served(url=_reached(url)):
        _write(folder, Served(url=_reached(url), stopped=True))


def remembered(folder: Path) -> Served | None:
    """Return what was noted last; None where nothing is known."""
    try:
        return Served.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return None


def _write(folder: Path, served: Served) -> None:
    new = folder / f"{FILE}.new"
    try:
        new.write_text(served.model_dump_json() + "\n", encoding="utf-8")
        new.replace(folder / FILE)
    except OSError as error:
        _LOG.warning(
            "`connect` will not know this address, give it --url %s: %s", served.url, error
        )


def _reached(url: str) -> str:
    for anywhere, here in _ANYWHERE.items():
        url = url.replace(f"//{anywhere}:", f"//{here}:")
    return url
