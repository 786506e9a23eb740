"""Which campaigns a server was given, and the name that each has in its path."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelarc_mcp.host.absent import no_campaign
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.ledger import FILE

BELOW: Final = "/c"
"""Each campaign's path is this and its name."""
_FIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Place:
    """A campaign's directory and the name it is served under."""

    name: str
    folder: Path

    @property
    def path(self) -> str:
        """Return the path that it is served below."""
        return f"{BELOW}/{self.name}"


def is_several(folders: Sequence[Path]) -> bool:
    """Say whether these are several campaigns, or a folder of campaigns, be there one in it or many."""
    return len(folders) > 1 or (not _is_campaign(folders[0]) and bool(_campaigns_in(folders[0])))


def places_of(folders: Iterable[Path]) -> list[Place]:
    """Return all campaigns of these directories, each of which is one or has some in it.

    CampaignError where one is neither, or where a name fits no URL or is another's too.
    """
    found: dict[str, Place] = {}
    for given in folders:
        campaigns = [given] if _is_campaign(given) else _campaigns_in(given)
        if not campaigns:
            raise CampaignError(no_campaign(given, FILE))
        for folder in campaigns:
            place = Place(folder.resolve().name, folder)
            if not _FIT.fullmatch(place.name):
                raise CampaignError(
                    f"{folder}: {place.name!r} is no name for a URL; rename the folder: up to 64 of"
                    " A-Z a-z 0-9 . _ -, the first a letter or a digit"
                )
            if (other := found.setdefault(place.name, place)) is not place:
                raise CampaignError(
                    f"{other.folder} and {folder} would both be at {place.path}: rename one folder,"
                    " or leave one out"
                )
    return list(found.values())


def _is_campaign(folder: Path) -> bool:
    return (folder / FILE).is_file()


def _campaigns_in(folder: Path) -> list[Path]:
    below = (path.parent for path in folder.glob(f"*/{FILE}") if path.is_file())
    return sorted(one for one in below if not one.name.startswith("."))
