"""Where a campaign is served over HTTP; beside its files, for `connect`."""

import logging
import socket
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from kernelarc_guard.model import Model

FILE: Final = "served.json"
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""Addresses that mean all of a machine's -> one that its own clients can name."""

_MOST: Final = 4
"""Addresses that are kept: a server that is killed leaves its own behind."""
_ANSWER_SECONDS: Final = 1.0

_LOG: Final = logging.getLogger(__name__)


class Served(Model):
    """What a server wrote when it began to listen, and again when it stopped."""

    url: str
    """Of the protocol, as it is reached on the server's own machine."""
    stopped: bool = False
    """Whether the server said that it ends; one that is killed says nothing."""


class _Noted(Served):
    """The server that began last, with those before it that have not said that they end."""

    before: list[str] = []
    """Their addresses, the newest first."""


def remember(folder: Path, url: str) -> None:
    """Note where a campaign is served; where that cannot be written, a log says so.

    What others noted stays until they say that they end.
    """
    here, noted = _reached(url), _noted(folder)
    others = [] if noted is None else noted.before if noted.stopped else [noted.url, *noted.before]
    before = [one for one in others if one != here][:_MOST]
    _write(folder, _Noted(url=here, before=before))


def stopped(folder: Path, url: str) -> None:
    """Note that the server at `url` ends; what others noted stays."""
    here, noted = _reached(url), _noted(folder)
    if noted is None:
        return
    before = [one for one in noted.before if one != here]
    ended = noted.model_copy(
        update={"before": before, "stopped": noted.stopped or noted.url == here}
    )
    if ended != noted:
        _write(folder, ended)


def remembered(folder: Path) -> Served | None:
    """Return what the newest server noted that answers, else the newest; None where nothing is known."""
    noted = _noted(folder)
    if noted is None:
        return None
    newest = Served(url=noted.url, stopped=noted.stopped)
    if not noted.before or (not noted.stopped and _answers(noted.url)):
        return newest
    return next((Served(url=one) for one in noted.before if _answers(one)), newest)


def _answers(url: str) -> bool:
    """Return whether anybody listens at an address."""
    try:
        where = urlsplit(url)
        with socket.create_connection((where.hostname, where.port), _ANSWER_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def _noted(folder: Path) -> _Noted | None:
    try:
        return _Noted.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return None


def _write(folder: Path, served: _Noted) -> None:
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
