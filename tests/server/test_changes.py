"""What subscribers are told about."""

from typing import get_args

from kernelarc_mcp.changes import SHOWN_NOWHERE, SHOWN_ON
from kernelarc_mcp.host.events import Body


def test_every_kind_of_event_changes_a_resource_or_is_known_to_change_none() -> None:
    union = get_args(Body)[0]
    kinds = {body.model_fields["kind"].default for body in get_args(union)}
    assert SHOWN_ON.keys() | SHOWN_NOWHERE == kinds
    assert not SHOWN_ON.keys() & SHOWN_NOWHERE
