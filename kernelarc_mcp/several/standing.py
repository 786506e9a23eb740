"""How one campaign of a server stands, as its own holders may read it."""

import sqlite3
from dataclasses import dataclass
from typing import Literal

from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.tickets import noted
from kernelarc_mcp.web.ledger_metrics import HELD_UP

State = Literal["served", "held_up", "down"]
STATES: tuple[State, ...] = ("served", "held_up", "down")


@dataclass(frozen=True)
class Standing:
    """Whether a campaign is served."""

    state: State
    """`held_up`: calls are answered and submissions wait, as nothing can be judged; `down`: neither."""
    why: str = ""
    """Empty while it is served."""


def standing_of(host: Host) -> Standing:
    """Return how an open campaign stands."""
    try:
        with host.campaign.journal.reading() as state:
            note, quarantined = noted(host.campaign), state.quarantined
    except (HostError, sqlite3.Error) as fault:
        return Standing("down", str(fault))
    if quarantined:
        return Standing("held_up", f"The device is quarantined: {quarantined}")
    why = host.held_up or (note if note.startswith(HELD_UP) else "")
    return Standing("held_up", why) if why else Standing("served")
