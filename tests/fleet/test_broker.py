"""What the broker does about devices and stand-ins that come, work and go; on a clock of the test's own."""

from collections.abc import Sequence
from itertools import count

import pytest

from kernelarc_mcp.fleet.broker import MARKS, REST, Broker
from kernelarc_mcp.fleet.choice import EXTRA, Bid, Device, Needs
from kernelarc_mcp.fleet.known import Over, Told

pytestmark = pytest.mark.anyio
NEEDS = Needs("cpu", {})
SILENCE = 15.0
NUMBERS = count(1)


@pytest.fixture
def anyio_backend() -> str:
    """Return Ray's own loop."""
    return "asyncio"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def device(name: str) -> Device:
    return Device(name, "cpu", "x", "host", {}, {})


async def beat(broker: Broker, name: str, busy: str) -> str:
    """Have a device say what it works on; return what it is told to end."""
    return await broker.beat(device(name), busy, f"life of {name}", next(NUMBERS))


async def begun(*names: str) -> tuple[Broker, Clock]:
    """Return a broker that knows devices and the stand-in `s` of campaign `c`."""
    clock = Clock()
    broker = Broker(SILENCE, clock)
    for name in names:
        await beat(broker, name, "")
    await broker.enter("s", "c", Told(next(NUMBERS), 0, {}, ()))
    return broker, clock


async def ask(broker: Broker, *keys: str, campaign: str = "c", elsewhere: str = "") -> None:
    """Let requests wait, each for the stand-in that its key begins with."""
    for key in keys:
        apart = frozenset({elsewhere} - {""})
        assert await broker.bid(key.partition("/")[0], Bid(key, campaign, "screen", NEEDS, apart))


async def granted(broker: Broker, session: str = "s") -> dict[str, str]:
    return dict((await broker.news(session, 0.0)).granted)


async def beats(broker: Broker, clock: Clock, seconds: float, names: Sequence[str]) -> None:
    """Let time pass in which some devices, and `s`, are heard of."""
    for _ in range(round(seconds)):
        clock.now += 1.0
        for name in names:
            await beat(broker, name, "")
        await broker.news("s", 0.0)


async def test_a_request_gets_the_free_device_and_the_next_one_waits_until_it_is_given_back() -> (
    None
):
    broker, _ = await begun("one")
    await ask(broker, "s/1", "s/2")
    assert await granted(broker) == {"s/1": "one"}
    assert await granted(broker) == {}
    await broker.done("s/1", "one", "answered", "", [])
    assert await granted(broker) == {"s/2": "one"}


async def test_what_a_stand_in_did_not_hear_is_said_again_and_nothing_twice() -> None:
    broker, _ = await begun("one")
    await ask(broker, "s/1")
    first = await broker.news("s", 0.0, 0)
    assert first.granted == {"s/1": "one"} and first.devices is not None
    await broker.withdraw_device("one", "life of one")
    assert await broker.news("s", 0.0, 0) == first
    second = await broker.news("s", 0.0, first.number)
    assert second.lost == {"s/1"} and not second.granted and second.devices == ()
    assert await broker.news("s", 0.0, first.number) == second
    assert (await broker.news("s", 0.0, second.number)).number == 0


async def test_a_stale_sign_of_life_neither_takes_nor_frees_a_device() -> None:
    broker, _ = await begun("one")
    await ask(broker, "s/1", "s/2")
    await granted(broker)
    await beat(broker, "one", "")  # it was granted, and not yet begun
    assert await granted(broker) == {}
    await broker.done("s/1", "one", "answered", "", [])
    assert await beat(broker, "one", "s/1") == ""  # said before it was done
    assert await granted(broker) == {"s/2": "one"}


async def test_a_silent_device_is_told_as_lost_and_comes_back_with_its_next_sign() -> None:
    broker, clock = await begun("one", "two")
    await ask(broker, "s/1")
    assert list((await granted(broker)).values()) == ["one"]
    await beats(broker, clock, SILENCE - 1, ["two"])
    clock.now += 2.0
    news = await broker.news("s", 0.0)
    assert news.lost == {"s/1"} and news.devices is not None
    assert [seen.device.name for seen in news.devices] == ["two"]
    # What it still does for somebody who has given it up, it is told to end.
    assert await beat(broker, "one", "s/1") == "s/1"
    await ask(broker, "s/2", elsewhere="two")
    assert await granted(broker) == {}
    await beat(broker, "one", "")
    assert await granted(broker) == {"s/2": "one"}


async def test_what_runs_for_a_stand_in_that_is_gone_is_ended_and_its_device_is_free() -> None:
    broker, clock = await begun("one")
    await broker.enter("t", "d", Told(next(NUMBERS), 0, {}, ()))
    await ask(broker, "t/1", campaign="d")
    assert await granted(broker, "t") == {"t/1": "one"}
    for _ in range(round(SILENCE) + 1):
        clock.now += 1.0
        await broker.news("s", 0.0)
        ended = await beat(broker, "one", "t/1")
    assert ended == "t/1"
    await ask(broker, "s/1")
    assert await granted(broker) == {}
    await beat(broker, "one", "")
    assert await granted(broker) == {"s/1": "one"}


async def test_a_broker_that_starts_anew_is_told_again_and_ends_nothing_meanwhile() -> None:
    broker, clock = await begun("one")
    await ask(broker, "s/1", "s/2")
    await granted(broker)
    again = Broker(SILENCE, clock)
    assert await beat(again, "one", "s/1") == ""
    assert not (await again.news("s", 0.0)).known
    waiting = Bid("s/2", "c", "screen", NEEDS)
    await again.enter("s", "c", Told(1, 2, {"s/1": "one"}, (waiting,)))
    assert await granted(again) == {}
    await again.done("s/1", "one", "answered", "", [])
    assert await granted(again) == {"s/2": "one"}


async def test_campaigns_get_equal_shares_and_one_that_idled_gets_no_more_than_that() -> None:
    broker, clock = await begun("one")
    await broker.enter("t", "d", Told(next(NUMBERS), 0, {}, ()))
    await ask(broker, *(f"s/{n}" for n in range(1, 9)))
    turns = []
    for turn in range(8):
        if turn == 2:  # the other campaign begins after two of the first
            await ask(broker, *(f"t/{n}" for n in range(1, 9)), campaign="d")
        news = await granted(broker) | await granted(broker, "t")
        (key,) = news
        turns.append(key[0])
        clock.now += 3.0
        await broker.news("s", 0.0)
        await broker.news("t", 0.0)
        await broker.done(key, "one", "answered", "", [])
        await beat(broker, "one", "")
    assert turns[:2] == ["s", "s"] and abs(turns[3:].count("s") - turns[3:].count("t")) <= 1


async def test_a_device_that_fails_what_others_answer_is_quarantined_and_later_tried_again() -> (
    None
):
    broker, clock = await begun("one", "two")
    for number in range(1, MARKS + 1):
        await ask(broker, f"s/{number}", elsewhere="one")
        await granted(broker)
        await broker.done(f"s/{number}", "two", "answered", "", ["one"])
    devices = (await broker.news("s", 0.0)).devices
    assert devices is not None and "in a row failed there" in devices[0].quarantined
    await ask(broker, "s/9", elsewhere="two")
    assert await granted(broker) == {"s/9": "two"}  # no other one is sound
    await broker.done("s/9", "two", "answered", "", [])
    await beats(broker, clock, REST, ["one", "two"])
    await ask(broker, "s/10", elsewhere="two")
    assert await granted(broker) == {"s/10": "one"}
    # One more failure is enough now.
    await broker.done("s/10", "one", "failed", "", [])
    await ask(broker, "s/11", elsewhere="one")
    await broker.done("s/11", "two", "answered", "", ["one"])
    devices = (await broker.news("s", 0.0)).devices
    assert devices is not None and devices[0].quarantined


async def test_a_host_where_no_guard_starts_is_quarantined_with_the_reason_at_once() -> None:
    broker, _ = await begun("one")
    await ask(broker, "s/1")
    await broker.done("s/1", "one", "broken", "its guard cannot be started", [])
    devices = (await broker.news("s", 0.0)).devices
    assert devices is not None and devices[0].quarantined == "its guard cannot be started"


async def test_devices_that_are_free_take_turns() -> None:
    broker, _ = await begun("one", "two", "three")
    used = []
    for number in range(1, 7):
        await ask(broker, f"s/{number}")
        ((key, name),) = (await granted(broker)).items()
        used.append(name)
        await broker.done(key, name, "answered", "", [])
    assert used == ["one", "two", "three"] * 2


async def test_what_is_said_twice_about_a_request_that_is_done_counts_once() -> None:
    broker, clock = await begun("one", "two")
    for number in range(1, MARKS):
        await ask(broker, f"s/{number}", elsewhere="one")
        await granted(broker)
        clock.now += 2.0
        for _ in range(3):
            await broker.done(f"s/{number}", "two", "answered", "", ["one"])
    devices = (await broker.news("s", 0.0)).devices
    assert devices is not None and not any(one.quarantined for one in devices)
    assert broker._places["one"].marks == MARKS - 1
    assert broker._used == {"c": 2.0 * (MARKS - 1)}


async def test_a_request_that_runs_or_is_over_does_not_wait_again() -> None:
    broker, _ = await begun("one", "two")
    await ask(broker, "s/1")
    assert await granted(broker) == {"s/1": "one"}
    await ask(broker, "s/1")
    assert await granted(broker) == {} and await beat(broker, "one", "s/1") == ""
    await broker.done("s/1", "one", "answered", "", [])
    await broker.withdraw("s", "s/2")  # before what it takes back
    await ask(broker, "s/1", "s/2")
    assert await granted(broker) == {} and not broker._sessions["s"].waiting


async def test_a_stand_in_that_tells_late_what_it_has_forgets_and_occupies_nothing() -> None:
    broker, _ = await begun("one")
    bids = [Bid(f"s/{number}", "c", "screen", NEEDS) for number in (1, 2, 3)]
    early = Told(next(NUMBERS), 1, {"s/1": "one"}, ())
    await ask(broker, "s/1")
    assert await granted(broker) == {"s/1": "one"}
    await broker.done("s/1", "one", "answered", "", [])
    await ask(broker, "s/2")
    assert await granted(broker) == {"s/2": "one"}
    await ask(broker, "s/3")
    await broker.enter("s", "c", early)
    assert broker._sessions["s"].running == {"s/2": "one"}
    now = Told(next(NUMBERS), 3, {"s/2": "one"}, (bids[2],))
    await broker.enter("s", "c", now)
    await broker.enter("s", "c", early)
    await broker.done("s/2", "one", "answered", "", [])
    assert await granted(broker) == {"s/3": "one"}
    await broker.leave("s")
    await broker.enter("s", "c", Told(next(NUMBERS), 3, {}, (bids[2],)))
    assert not broker._sessions


async def test_what_comes_late_of_a_device_neither_takes_it_away_nor_brings_it_back() -> None:
    broker, clock = await begun("one")
    await broker.withdraw_device("one", "life of one")
    await beat(broker, "one", "")
    assert not broker._places
    await broker.beat(device("one"), "", "second", 1)
    await ask(broker, "s/1")
    await broker.withdraw_device("one", "life of one")
    assert await granted(broker) == {"s/1": "one"}
    await broker.beat(device("one"), "s/1", "second", 3)
    await broker.done("s/1", "one", "answered", "", [])
    await broker.beat(device("one"), "", "second", 4)
    await broker.beat(device("one"), "s/1", "second", 2)
    await ask(broker, "s/2")
    assert await granted(broker) == {"s/2": "one"}
    clock.now += SILENCE + 1
    await broker.news("s", 0.0)
    await broker.beat(device("one"), "", "second", 4)
    assert not broker._places


async def test_what_runs_on_a_device_that_a_new_broker_never_hears_of_is_told_as_lost() -> None:
    broker, clock = await begun("one")
    await broker.enter("s", "c", Told(next(NUMBERS), 1, {"s/1": "two"}, ()))
    await beats(broker, clock, SILENCE, ["one"])
    clock.now += 1.0
    assert (await broker.news("s", 0.0)).lost == {"s/1"}


def test_numbers_are_over_in_any_order() -> None:
    over = Over()
    over.add([2, 4])
    assert [n in over for n in (1, 2, 3, 4, 5)] == [False, True, False, True, False]
    over.add([1])
    assert over.rest(5) == [3, 5] and 2 in over


async def test_what_is_extra_goes_last_and_has_no_part_in_the_shares_of_its_campaign() -> None:
    broker, clock = await begun("one")
    extra = Bid("s/1", "c", EXTRA, NEEDS)
    assert await broker.bid("s", extra)
    assert await granted(broker) == {"s/1": "one"}
    await ask(broker, "s/3")
    await broker.bid("s", Bid("s/2", "c", EXTRA, NEEDS))
    clock.now += 5.0
    await broker.done("s/1", "one", "answered", "", [])
    assert broker._used == {}
    assert await granted(broker) == {"s/3": "one"}, "it came first and goes last"
    clock.now += 3.0
    await broker.done("s/3", "one", "answered", "", [])
    assert broker._used == {"c": 3.0}
    assert await granted(broker) == {"s/2": "one"}
    await beat(broker, "one", "s/2")
    clock.now += 5.0
    await broker.done("s/2", "one", "answered", "", [])
    assert broker._used == {"c": 3.0}
