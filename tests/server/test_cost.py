"""What a search cost: prices with their sources, and what is not known told as such."""

from datetime import date
from pathlib import Path

import pytest
from command_line import Run
from host_places import judge_all, make_campaign, opened, planned, scripted_guard
from usage_rows import used

from kernelarc_mcp.cost.prices import PricesError, read_prices
from kernelarc_mcp.report import read_report

OWN = """
prices:
  - models: [house-model]
    input: 2.0
    cached: 0.5
    output: 10.0
    source: our contract
    date: 2026-11-01
"""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Return a campaign whose agent `ada` has one KEEP of 20 %, `bob` one REVERT."""
    folder = tmp_path / "campaign"
    make_campaign(folder)
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "gain:20"))
        host.submit("bob", source=planned(2, "wrong"), model="some-model", tokens=500)
    judge_all(folder, scripted_guard(tmp_path))
    return folder


def test_every_shipped_price_has_a_source_and_a_date_and_dated_names_are_known() -> None:
    prices = read_prices(None)
    opus = prices.of("claude-opus-4-5-20251101")
    assert opus is not None and opus == prices.of("claude-opus-4-5")
    assert opus.source.startswith("https://") and opus.date <= date.today()
    assert opus.usd(2_000_000, 1_000_000, 1_000_000) == 5.0 + 0.5 + 25.0
    assert prices.of("claude-opus") is None and prices.of("") is None


def test_a_campaigns_own_prices_go_first_and_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(OWN)
    own = read_prices(tmp_path).of("house-model")
    assert own is not None and own.output == 10.0 and read_prices(tmp_path).of("gpt-5-codex")
    for text, said in (
        (OWN.replace("2.0", "-2.0"), "prices.0.input"),
        (OWN.replace("    source: our contract\n", ""), "prices.0.source"),
        ("prices: [", "no YAML"),
        ("", "prices.yaml"),
    ):
        path.write_text(text)
        with pytest.raises(PricesError, match=said):
            read_prices(tmp_path)


def test_money_is_what_clients_said_and_else_follows_from_prices(kept: Path) -> None:
    (kept / "prices.yaml").write_text(OWN)
    with opened(kept) as host:
        host.record_usage("ada", used("one", cost=1.0, model="house-model"))
        host.record_usage("ada", used("two", model="house-model", cached=400_000))
        host.record_usage("bob", used("one", cost=0.2))
    costs = read_report(kept).costs
    ada, bob = costs.agents
    assert (ada.spent.tokens, ada.models, ada.keeps) == (2_200_000, ["house-model"], 1)
    assert ada.spent.usd == pytest.approx(1.0 + 1.2 + 0.2 + 1.0) and ada.usd == "3.40 USD"
    assert ada.keep_usd == "3.40 USD" and ada.steps == pytest.approx(20.0, rel=0.02)
    assert ada.usd_per_percent == pytest.approx(3.4 / ada.steps)
    assert bob.keep_usd == "no KEEP" and bob.usd == "0.2000 USD"
    assert costs.total.usd == "3.60 USD" and costs.total.keeps == 1
    assert costs.notes == [
        "2.4000 USD of it follow from tokens and the table of prices; clients said the rest."
    ]


def test_what_is_not_known_is_unknown_and_a_part_says_so(kept: Path, run: Run) -> None:
    ada, bob = read_report(kept).costs.agents
    assert (ada.tokens, ada.usd, ada.keep_usd) == ("unknown", "unknown", "unknown")
    assert (bob.tokens, bob.usd, bob.models) == ("500", "unknown", ["some-model"])
    with opened(kept) as host:
        host.record_usage("ada", used("one", model="nobody-knows-it"))
        host.record_usage("ada", used("two", cost=0.5))
        host.record_usage("ada", used("three", model="gpt-5-codex", cached=None))
    costs = read_report(kept).costs
    assert costs.agents[0].tokens == "3,300,000"
    assert costs.agents[0].usd == "at least 0.5000 USD (1 of 3 runs known whole)"
    assert costs.agents[0].keep_usd == "at least 0.5000 USD"
    assert costs.total.usd == "at least 0.5000 USD (0 of 2 agents known whole)"
    assert costs.total.tokens == "3,300,500"
    assert "Tokens without a known price: of nobody-knows-it." in costs.notes
    status, out, _ = run("status", str(kept))
    assert status == 0 and "at least 0.5000 USD (1 of 3 runs known whole)" in out
    assert run("report", str(kept))[0] == 0
    text = (kept / "report" / "report.md").read_text()
    assert "| all together | 3,300,500 | at least 0.5000 USD (0 of 2 agents known whole) |" in text
    (kept / "prices.yaml").write_text("prices: 7")
    assert any("No price is known: " in note for note in read_report(kept).costs.notes)


def test_more_cached_tokens_than_were_read_are_refused(kept: Path, run: Run) -> None:
    record = ["usage", str(kept), "ada", "--run", "x", "--input-tokens", "5"]
    status, _, error = run(*record, "--cached-tokens", "6")
    assert status == 2 and "--cached-tokens" in error and error.count("\n") == 1
    assert run(*record, "--cached-tokens", "5", "--model", "m")[0] == 0
    assert run("verify", str(kept))[0] == 0
