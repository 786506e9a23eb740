"""The parts of the HTTP front that need no server: names, rates and sessions."""

import pytest

from kernelarc_mcp.web.names import Names
from kernelarc_mcp.web.rates import Rates
from kernelarc_mcp.web.sessions import IDLE_SECONDS, NoRoom, Sessions


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("header", "known"),
    [
        ("127.0.0.1:8765", True),
        ("localhost", True),
        ("LOCALHOST:1", True),
        ("[::1]:8765", True),
        ("gpu.lab.example", True),
        ("gpu.lab.example:443", True),
        (None, False),
        ("", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("localhost:80@evil.example", False),
        ("evil.example@localhost", False),
        ("localhost/evil.example", False),
        ("localhost?evil", False),
        ("localhost:port", False),
        ("localhost:99999", False),
        ("[::1", False),
        ("127.0.0.1.", False),
    ],
)
def test_a_host_is_known_by_its_whole_name(header: str | None, known: bool) -> None:
    assert Names.of(["gpu.lab.example"]).knows_host(header) is known


@pytest.mark.parametrize(
    ("header", "known"),
    [
        (None, True),
        ("http://localhost:3000", True),
        ("https://gpu.lab.example", True),
        ("https://board.example:8443", True),
        ("https://board.example", False),
        ("null", False),
        ("", False),
        ("http://evil.example", False),
        ("http://localhost@evil.example", False),
        ("file://localhost", False),
        ("localhost", False),
    ],
)
def test_an_origin_is_known_by_name_or_in_full(header: str | None, known: bool) -> None:
    names = Names.of(["gpu.lab.example"], ["https://board.example:8443"])
    assert names.knows_origin(header) is known


@pytest.mark.parametrize("origin", ["board.example", "ftp://board.example", "https://a.example/x"])
def test_what_is_no_origin_cannot_be_allowed(origin: str) -> None:
    with pytest.raises(ValueError, match="expected an origin"):
        Names.of([], [origin])


def test_a_bucket_gives_its_burst_then_its_rate_to_each_holder_alone() -> None:
    clock = Clock()
    rates = Rates(rate=2.0, burst=3.0, clock=clock)
    assert [rates.wait("ada") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert rates.wait("bob") == 0.0
    clock.now += 0.25
    assert rates.wait("ada") == 0.25
    clock.now += 0.25
    assert rates.wait("ada") == 0.0
    clock.now += 1e6
    assert [rates.wait("ada") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    unlimited = Rates(rate=0.0, clock=clock)
    assert not any(unlimited.wait("ada") for _ in range(1000))


def test_a_request_a_second_is_never_held_up() -> None:
    clock = Clock()
    rates = Rates(clock=clock)
    for _ in range(1000):
        assert rates.wait("ada") == 0.0
        clock.now += 1.0


def test_a_new_session_ends_the_one_of_its_holder_that_was_idle_longest() -> None:
    clock = Clock()
    sessions = Sessions(each=2, clock=clock)
    for name in ("first", "second"):
        clock.now += 1
        with sessions.opening("ada") as old:
            assert old == ""
            sessions.opened("ada", name)
    with sessions.using("ada", "first"):
        clock.now += 1
    with sessions.opening("bob") as old:
        assert old == ""
    with sessions.opening("ada") as old:
        assert old == "second"
        sessions.opened("ada", "third")
    with sessions.using("ada", "first"), sessions.using("ada", "third"):
        with pytest.raises(NoRoom), sessions.opening("ada"):
            raise AssertionError
        with sessions.using("bob", "first"):
            assert len(sessions) == 2
    clock.now += IDLE_SECONDS + 1
    with sessions.opening("ada") as old:
        assert old == ""
    assert len(sessions) == 0


def test_sessions_that_open_at_the_same_time_count() -> None:
    sessions = Sessions(each=2)
    with sessions.opening("ada"), sessions.opening("ada"):
        with pytest.raises(NoRoom), sessions.opening("ada"):
            raise AssertionError
    with sessions.opening("ada") as old:
        assert old == ""
