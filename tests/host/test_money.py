"""A campaign's limit on money: what is known counts, what is not is said, and nothing is zero silently."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from command_line import Run, command_line
from host_places import kernel, make_campaign, opened
from stories import Story
from usage_rows import used

from kernelarc_mcp.cost.prices import PricesError
from kernelarc_mcp.host.errors import BudgetSpent
from kernelarc_mcp.host.events import Event, read, seal
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.inconsistent import Inconsistent
from kernelarc_mcp.host.laws import Laws
from kernelarc_mcp.report import read_report

PRICE = """
prices:
  - {models: [house], input: 2.0, cached: 0.5, output: 10.0, source: a contract, date: 2026-11-01}
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, capsys)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    def make(**changes: object) -> Path:
        make_campaign(tmp_path / "c", **changes)
        return tmp_path / "c"

    return make


def left(host: Host, agent: str) -> str | None:
    return host.brief(agent).state.money_left


def test_an_agent_that_spent_its_share_stops_and_the_others_go_on(
    made: Callable[..., Path], run: Run
) -> None:
    folder = made(money=10.0)
    with opened(folder) as host:
        assert left(host, "ada") == "at most 5.00 USD of 5.00 USD"
        host.submit("ada", source=kernel(1), cost=4.5)
        assert left(host, "ada") == "at most 0.50 USD of 5.00 USD"
        host.record_usage("ada", used("one", cost=5.25))
        with pytest.raises(BudgetSpent, match=r"your share .* 10.00 USD, 5.00 USD, .* \(5.25 USD"):
            host.submit("ada", source=kernel(2))
        brief = host.brief("ada")
        assert brief.state.directive == "STOP" and "5.25 USD are known" in brief.next_step
        host.submit("bob", source=kernel(3))
    assert run("verify", str(folder))[0] == 0
    notes = read_report(folder).costs.notes
    assert notes[0].startswith("Limit: 10.00 USD in even shares; 5.25 USD are known of")
    assert "1 of 1 submissions of bob" in notes[1]


def test_a_pool_is_spent_by_all_together(made: Callable[..., Path]) -> None:
    with opened(made(money=10.0, pool=True)) as host:
        host.submit("ada", source=kernel(1), cost=6.0)
        host.submit("bob", source=kernel(2), cost=4.0)
        with pytest.raises(BudgetSpent, match=r"the campaign's 10.00 USD are spent \(10.00 USD"):
            host.submit("bob", source=kernel(3))


def test_what_has_no_known_price_is_not_counted_and_said(made: Callable[..., Path]) -> None:
    folder = made(money=10.0)
    (folder / "prices.yaml").write_text(PRICE)
    with opened(folder) as host:
        host.record_usage("ada", used("one", model="nobody-knows-it"))
        missing = "; not counted, as no cost is known: "
        assert left(host, "ada") == f"at most 5.00 USD of 5.00 USD{missing}1 of 1 runs"
        host.record_usage("ada", used("two", model="house"))
        assert left(host, "ada") == f"at most 2.00 USD of 5.00 USD{missing}1 of 2 runs"
        host.record_usage("ada", used("three", model="house", cached=None))
        assert left(host, "ada") == f"at most 2.00 USD of 5.00 USD{missing}2 of 3 runs"
        host.submit("bob", source=kernel(1))
        assert left(host, "bob") == f"at most 5.00 USD of 5.00 USD{missing}1 of 1 submissions"
        # A price that changes later changes nothing that was recorded.
        (folder / "prices.yaml").write_text(PRICE.replace("2.0", "200.0"))
        host.submit("ada", source=kernel(2))
        (folder / "prices.yaml").write_text("prices: [")
        with pytest.raises(PricesError, match="no YAML"):
            host.record_usage("ada", used("four", model="house"))


def test_without_a_limit_no_money_is_told_of(made: Callable[..., Path]) -> None:
    with opened(made()) as host:
        host.submit("ada", source=kernel(1), cost=1e6)
        assert left(host, "ada") is None
        host.submit("ada", source=kernel(2))


def test_a_row_submitted_without_money_breaks_replay_and_law() -> None:
    story = Story(money=2.0)
    story.submit("ada")
    story.add(used("one", cost=1.5), "ada")
    with pytest.raises(Inconsistent, match="a limit was reached"):
        story.submit("ada")
    story.submit("bob")
    laws, head, at = Laws(), "0" * 64, story.now - timedelta(days=1)
    events: list[Event] = []
    rows = [*story.rows, story.rows[-1]]
    for number, (body, agent, submission) in enumerate(rows, start=1):
        # The last row once more, as if it were the other agent's, who has nothing left.
        last = number == len(rows)
        who, ticket = ("ada", "s003") if last else (agent, submission)
        row = seal(number, at.isoformat(), who, ticket, body, head)
        head = row.hash
        events.append(read(row))
    for event in events[:-1]:
        laws.note(event)
    assert laws.broken(story.state) == []
    laws.note(events[-1])
    assert f"event row {len(rows)}: the money was spent" in laws.broken(story.state)
