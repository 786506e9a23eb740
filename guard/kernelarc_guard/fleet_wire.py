"""What a dispatcher and the stand-in of a fleet say to each other: the guard's wire, many requests at once.

Light; imported by the server and by the stand-in. One JSON text a line, both ways:

* to the stand-in: the guard's requests and inquiries as they are, any number in flight, `Prepare`, which is
  never answered, `OnModel`, and `Cancel`;
* from it: the guard's answers as they are, told apart by their `id`, and unasked `Capacity`, `Placed` and
  `Hindrance`.

An id is used once in the life of a stand-in: `SUBJECT-screen.N`, `SUBJECT-confirm.N` and others, N
counting all requests (`subject` says what one is about). A confirmation is placed on another device than
the screen of the same subject where there is one. Where more is asked than devices are free, screens
come after all else, and otherwise what was asked first comes first.

Answers of a request that was cancelled are passed over. A refusal with the code `device_lost` says that
the machine went away and no other could take the request, and one with `guard_died` that the guard
died over it: the one is nobody's fault, the other may be the candidate's, so a guard that dies is
not tried again by the stand-in. It ends, with all its guards, when its stdin closes.
"""

import re
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from kernelarc_guard.inquiries import Counted, Profiled, Question
from kernelarc_guard.model import Model
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.protocol import Answer, Compare

_ID: Final = re.compile(r"(?P<subject>.+)-(?P<part>screen|confirm|profile)\.\d+")


class FleetDevice(Model):
    """One device of a fleet."""

    name: str
    """Its own in the whole fleet."""
    model: str
    """What records and verdicts hold for; devices of another are no lanes of a campaign."""
    host: str
    state: Literal["ready", "busy", "quarantined", "refused"]
    why: str = ""
    """In a sentence, where it is quarantined or refused."""


class Capacity(Model):
    """All devices there are; said once the cluster has told them, and whenever one comes, goes or changes."""

    event: Literal["capacity"] = "capacity"
    devices: list[FleetDevice]
    builders: list[FleetDevice] = []
    """Slots of hosts that only build."""


class Hindrance(Model):
    """Why the cluster tells of no devices: it is waited for, or, as the last word, the stand-in gives up."""

    event: Literal["hindrance"] = "hindrance"
    why: str


class Placed(Model):
    """A request begins on a device, for the first time or again; its deadline begins with it."""

    event: Literal["placed"] = "placed"
    id: str
    device: str
    host: str


class Cancel(Model):
    """Nobody needs the answer of a request any more."""

    op: Literal["cancel"] = "cancel"
    id: str


class OnModel(Model):
    """A comparison for a device of a model that is not the campaign's own.

    It goes after all else that anybody asks of such devices, has no part in the shares by which campaigns are
    served, and is answered as any request.
    """

    op: Literal["on_model"] = "on_model"
    model: str = Field(min_length=1)
    request: Compare


ToFleet = Annotated[Question | Prepare | OnModel | Cancel, Field(discriminator="op")]
TO_FLEET: TypeAdapter[ToFleet] = TypeAdapter(ToFleet)
FromFleet = Annotated[
    Answer | Counted | Profiled | Capacity | Placed | Hindrance, Field(discriminator="event")
]
FROM_FLEET: TypeAdapter[FromFleet] = TypeAdapter(FromFleet)


def subject(id: str) -> tuple[str, str]:
    """Return what a request is about and which part of it this is; the part is empty for most."""
    found = _ID.fullmatch(id)
    return (found["subject"], found["part"]) if found else (id.rpartition(".")[0] or id, "")
