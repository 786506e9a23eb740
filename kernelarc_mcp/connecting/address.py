"""Where a campaign is served that shares its server with others; beside its files, for `connect`."""

import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from kernelarc_guard.model import Model

FILE: Final = "served.json"

_LOG: Final = logging.getLogger(__name__)


class Served(Model):
    """What a server of several campaigns wrote when it began to listen."""

    url: str
    """Of the protocol, as it is reached on the server's own machine."""


def remember(folder: Path, url: str) -> None:
    """Note where a campaign is served; where that cannot be written, a log says so."""
    new = folder / f"{FILE}.new"
    try:
        new.write_text(Served(url=url).model_dump_json() + "\n", encoding="utf-8")
        new.replace(folder / FILE)
    except OSError as error:
        _LOG.warning("`connect` will not know this address, give it --url %s: %s", url, error)


def forget(folder: Path) -> None:
    """Take the note back, as the campaign is served alone."""
    with suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)


def remembered(folder: Path) -> str:
    """Return the URL noted last; empty where the campaign is served alone, or nothing is known."""
    try:
        return Served.model_validate_json((folder / FILE).read_bytes()).url
    except (OSError, ValidationError):
        return ""
