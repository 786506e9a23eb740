"""Several servers of one campaign: who dispatches after one was stopped, ended or suspended."""

import fcntl
import json
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from dispatching import serving
from host_places import make_campaign, opened, planned, scripted_guard
from server_campaigns import create
from server_process import RawStdio, http_server

from kernelarc_mcp.host.election import LOCK, Seat, SeatJournal, SeatLost, SeatTaken, holder_of
from kernelarc_mcp.host.events import CalibrationAsked
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.verify import verify


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll as a waiting client does."""

    async def poll() -> None:
        with anyio.fail_after(120):
            while not condition():
                await anyio.sleep(0.02)

    anyio.run(poll)


def rows_of(host: Host, kind: str) -> list[dict[str, object]]:
    """Return the bodies of all rows of a kind."""
    rows = host.campaign.journal.ledger.rows_after(0)
    return [json.loads(row.body) for row in rows if row.kind == kind]


def test_a_suspended_dispatcher_is_replaced_and_settles_nothing_when_it_goes_on(
    tmp_path: Path,
) -> None:
    folder, guard = tmp_path / "campaign", scripted_guard(tmp_path)
    make_campaign(folder)
    with opened(folder) as host:
        hung = host.submit("ada", source=planned(1, "hang_once")).ticket
        with serving(folder, guard, stopped_seconds=0.2) as first:
            wait_until(lambda: host.submission("ada", hung).percent > 0)
            first.send_signal(signal.SIGSTOP)
            with serving(folder, guard, stopped_seconds=0.2) as second:
                wait_until(lambda: host.submission("ada", hung).state == "done")
                first.send_signal(signal.SIGCONT)
                following = host.submit("bob", source=planned(2, "gain:20")).ticket
                wait_until(lambda: host.submission("bob", following).state == "done")
                assert [r["process"] for r in rows_of(host, "judging")] == [
                    first.pid,
                    second.pid,
                    second.pid,
                ]
            # The one that was replaced stands for election again.
            last = host.submit("ada", source=planned(3, "gain:0")).ticket
            wait_until(lambda: host.submission("ada", last).state == "done")
            assert rows_of(host, "judging")[-1]["process"] == first.pid
        assert len(rows_of(host, "settled")) == 3
        assert [r["cause"] for r in rows_of(host, "interrupted")] == ["dispatcher_lost"]
    assert verify(folder) == []


def test_a_stopped_server_hands_over_to_one_of_another_transport(tmp_path: Path) -> None:
    guard = scripted_guard(tmp_path)
    place = create(tmp_path / "campaign")
    host = Host.open(place.folder)
    try:
        with http_server(place.folder, guard) as (first, _):
            wait_until(lambda: (holder_of(place.folder) or host) is not host)
            second = RawStdio(place.folder, guard, "ada")
            host.register("ada")
            source = "def run(x):\n    return x + x\n\n\nPLAN = 'hang_once'\n"
            hung = host.submit("ada", source=source).ticket
            wait_until(lambda: host.submission("ada", hung).percent > 0)
            first.send_signal(signal.SIGTERM)
            wait_until(lambda: host.submission("ada", hung).state == "done")
        claims = [row["process"] for row in rows_of(host, "judging")]
        assert claims == [first.pid, second.process.pid]
        assert [row["cause"] for row in rows_of(host, "interrupted")] == ["stopped"]
        assert second.close() == 0
    finally:
        host.close()
    assert verify(place.folder) == []


def test_who_lost_the_seat_writes_nothing_more(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder)
    with opened(folder) as host:
        seat = Seat(folder)
        seat.take()
        journal = SeatJournal(host.campaign.journal, seat)
        asked = CalibrationAsked(nurseries=1, pairs=2)
        with journal.writing() as writer:
            writer.append(asked)
        (folder / LOCK).unlink()
        other = Seat(folder)
        other.take()
        before = host.campaign.journal.ledger.last_seq()
        with pytest.raises(SeatLost, match="another process dispatches"):
            with journal.writing() as writer:
                writer.append(asked)
        with pytest.raises(SeatLost), journal.alone():
            pass
        assert host.campaign.journal.ledger.last_seq() == before
        seat.release()
        other.release()
    assert verify(folder) == []


def test_a_lock_that_is_put_aside_while_it_is_taken_gives_no_seat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "campaign"
    make_campaign(folder)
    late, other = Seat(folder), Seat(folder)
    lock = fcntl.flock

    def overtaken(file: int, how: int) -> None:
        """Lock it, and let another process be quicker than the look at what was locked."""
        monkeypatch.setattr(fcntl, "flock", lock)
        lock(file, how)
        (folder / LOCK).unlink()
        other.take()

    monkeypatch.setattr(fcntl, "flock", overtaken)
    with pytest.raises(SeatTaken):
        late.take()
    assert late.lost and not other.lost
    other.release()
    late.take()
    assert not late.lost
    late.release()
