"""What a refused call costs, and what settings and notices must name."""

from pathlib import Path

import pytest
from host_places import kernel, make_settings, opened
from pydantic import ValidationError

from kernelarc_mcp.host.errors import UnknownTicket
from kernelarc_mcp.host.events import Interrupted
from kernelarc_mcp.host.inconsistent import Inconsistent


def test_a_refused_call_keeps_the_replayed_state_and_a_failed_write_does_not(folder: Path) -> None:
    with opened(folder) as host:
        journal = host.campaign.journal
        ticket = host.submit("ada", source=kernel(1)).ticket
        with journal.reading() as before:
            pass
        with pytest.raises(UnknownTicket):
            host.cancel("ada", "s999")
        with journal.reading() as after:
            assert after is before
        with pytest.raises(Inconsistent), journal.writing() as writer:
            writer.append(Interrupted(cause="stopped", detail=""), "ada", ticket)
        with journal.reading() as after:
            assert after is not before and after.seq == before.seq


def test_a_source_is_free_again_once_its_queued_submission_is_cancelled(folder: Path) -> None:
    with opened(folder) as host:
        first = host.submit("ada", source=kernel(1)).ticket
        later = host.submit("bob", source=kernel(1)).ticket
        assert host.submission("bob", later).reason == "duplicate"
        host.cancel("ada", first)
        again = host.submit("bob", source=kernel(1)).ticket
        assert host.submission("bob", again).state == "queued"


def test_a_shared_memory_is_named_by_an_absolute_path() -> None:
    with pytest.raises(ValidationError, match="absolute"):
        make_settings(memory="shared.sqlite")
