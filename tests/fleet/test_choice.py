"""Which waiting request gets the device that is free."""

from collections.abc import Mapping

from kernelarc_mcp.fleet.choice import PATIENCE, Bid, Device, Needs, choose, why_not

OWN = {"kernelarc": "1", "protocol": "p"}
TOOLS = {"torch": "2.13.0", "GPU": "H200"}


def device(name: str, model: str = "H200", tools: Mapping[str, str] = TOOLS) -> Device:
    return Device(name, "cuda", model, "host", OWN, tools)


def bid(key: str, op: str = "screen", campaign: str = "a", **more: object) -> Bid:
    needs = more.pop("needs", Needs("cuda", OWN))
    assert isinstance(needs, Needs)
    told = {"elsewhere": frozenset[str](), "since": 0.0} | more
    return Bid(key, campaign, op, needs, **told)  # type: ignore[arg-type]


def chosen(bids: list[Bid], shares: Mapping[str, float] | None = None, now: float = 1.0) -> str:
    """Return who gets the first of two equal devices."""
    one, other = device("one"), device("other")
    found = choose(one, bids, shares or {}, [one, other], now)
    return found.key if found is not None else ""


def test_a_confirmation_goes_before_what_is_due_and_that_before_screens() -> None:
    bids = [bid("screen"), bid("compare", "compare", since=1), bid("confirm", "confirm", since=2)]
    assert chosen(bids) == "confirm"
    assert chosen(bids[:2]) == "compare"


def test_among_screens_the_campaign_that_had_least_goes_first_and_then_who_waits_longest() -> None:
    bids = [bid("a1", since=2), bid("b1", campaign="b", since=3), bid("a0", since=1)]
    assert chosen(bids, {"a": 10.0, "b": 1.0}) == "b1"
    assert chosen(bids, {"a": 1.0, "b": 10.0}) == "a0"


def test_a_confirmation_leaves_the_device_of_its_screen_to_others_while_there_is_another() -> None:
    apart = bid("confirm", "confirm", elsewhere=frozenset({"one"}))
    assert chosen([apart, bid("screen")]) == "screen"
    assert chosen([apart]) == ""
    only = device("one")
    alone = choose(only, [apart], {}, [only, device("third", model="H100")], 1.0)
    # Another of its model: the third one is no choice where the campaign asks for an H200.
    of_model = bid(
        "confirm",
        "confirm",
        elsewhere=frozenset({"one"}),
        needs=Needs("cuda", OWN, model="H200"),
    )
    assert alone is None
    found = choose(only, [of_model], {}, [only, device("third", model="H100")], 1.0)
    assert found is of_model


def test_who_waited_long_enough_takes_the_device_it_would_rather_not_have() -> None:
    apart = bid("confirm", "confirm", elsewhere=frozenset({"one"}))
    assert chosen([apart], now=PATIENCE) == "confirm"


def test_a_device_that_does_not_fit_is_refused_with_what_differs() -> None:
    needs = Needs("cuda", OWN, model="H200", toolchain=TOOLS)
    assert why_not(needs, device("one")) == ""
    assert why_not(Needs("cpu", OWN), device("one")).startswith("it is a cuda device")
    assert "H100" in why_not(needs, device("one", model="H100"))
    older = why_not(needs, device("one", tools=TOOLS | {"torch": "2.11.0"}))
    assert older == "torch is 2.11.0 there; the campaign was calibrated with 2.13.0"
    more = why_not(needs, device("one", tools=TOOLS | {"triton": "3.7"}))
    assert more == "triton is 3.7 there; the campaign was calibrated with none"
    other = Needs("cuda", OWN | {"protocol": "q"})
    assert why_not(other, device("one")) == "protocol is p there; the server has q"
