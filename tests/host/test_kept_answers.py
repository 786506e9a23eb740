"""Answers that are kept for the next reader: the same while nothing changed, and never an hour late."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from host_places import kernel, make_campaign

from kernelarc_mcp.host.host import Host


class Hour:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def hour() -> Hour:
    return Hour()


@pytest.fixture
def host(tmp_path: Path, hour: Hour) -> Iterator[Host]:
    make_campaign(tmp_path / "c", wall_seconds=3600)
    host = Host.open(tmp_path / "c", hour)
    for agent in ("ada", "bob"):
        host.register(agent)
    yield host
    host.close()


def test_time_alone_changes_what_is_kept(host: Host, hour: Hour) -> None:
    before = [host.brief("ada"), host.board("ada"), host.lens("ada")]
    assert all(answer.next_step.startswith("CONTINUE") for answer in before)
    hour.now += timedelta(hours=2)
    after = [host.brief("ada"), host.board("ada"), host.lens("ada")]
    assert all(answer.next_step.startswith("STOP") for answer in after)
    assert host.brief("ada").state.directive == "STOP"


def test_a_row_of_another_process_changes_what_is_kept(host: Host, hour: Hour) -> None:
    attempts = host.brief("ada").state.attempts_used, host.board("bob").attempts_used
    other = Host.open(host.folder, hour)
    other.submit("ada", source=kernel(1))
    other.close()
    assert (host.brief("ada").state.attempts_used, host.board("bob").attempts_used) == (
        attempts[0] + 1,
        attempts[1] + 1,
    )


def test_what_is_kept_for_one_agent_is_not_told_to_another(host: Host) -> None:
    assert host.brief("ada").state.agent == "ada" and host.brief("bob").state.agent == "bob"
    assert host.board("ada").agents[0].agent == "ada" and host.board("bob").agents[0].agent == "bob"
    assert host.brief("ada") is host.brief("ada")
