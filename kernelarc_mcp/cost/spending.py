"""Tokens and money of one agent, from what its clients said; pure."""

from collections.abc import Iterable

from kernelarc_guard.model import Model
from kernelarc_mcp.cost.prices import Prices
from kernelarc_mcp.cost.told import Told
from kernelarc_mcp.host.usage import UsageTotals


class Spending(Model):
    """What is known of somebody's tokens and money; a part of it where something did not say."""

    parts: int
    """Runs, submissions or agents that it is the sum of."""
    of: str
    """What the parts are: `runs`, `submissions` or `agents`; empty: nobody said anything."""
    tokens: int | None
    """Null: unknown."""
    with_tokens: int
    """Parts whose tokens are known whole; fewer than `parts`: the sum is a part."""
    usd: float | None
    with_usd: int
    usd_by_prices: float
    """Of `usd`: what clients did not say and the table of prices gave."""
    unpriced: list[str]
    """Models whose tokens are known and whose price is not."""

    @property
    def whole_tokens(self) -> bool:
        """Say whether the tokens are all there were."""
        return self.tokens is not None and self.with_tokens == self.parts

    @property
    def whole_usd(self) -> bool:
        """Say whether the money is all there was."""
        return self.usd is not None and self.with_usd == self.parts


NOTHING = Spending(
    parts=0,
    of="",
    tokens=None,
    with_tokens=0,
    usd=None,
    with_usd=0,
    usd_by_prices=0.0,
    unpriced=[],
)


def spending_of(usage: UsageTotals, told: Told, prices: Prices) -> Spending:
    """Return what an agent spent: by its runs where any were recorded, else by its submissions.

    A submission's tokens are not split into input and output, so no price can be put on them.
    """
    if usage.runs:
        return _by_runs(usage, prices)
    if not (told.with_tokens or told.with_usd):
        return NOTHING
    return Spending(
        parts=told.submissions,
        of="submissions",
        tokens=told.tokens if told.with_tokens else None,
        with_tokens=told.with_tokens,
        usd=told.usd if told.with_usd else None,
        with_usd=told.with_usd,
        usd_by_prices=0.0,
        unpriced=[],
    )


def _by_runs(usage: UsageTotals, prices: Prices) -> Spending:
    money, priced, unpriced = 0.0, 0, set()
    for model, sums in usage.without_cost.items():
        price = prices.of(model)
        if price is None:
            unpriced.add(model or "a model that was not named")
            continue
        money += price.usd(sums.input_tokens, sums.cached_tokens, sums.output_tokens)
        priced += sums.runs
    known = usage.with_cost + priced
    return Spending(
        parts=len(usage.runs),
        of="runs",
        tokens=usage.input_tokens + usage.output_tokens if usage.with_tokens else None,
        with_tokens=usage.with_tokens,
        usd=usage.cost_usd + money if known else None,
        with_usd=known,
        usd_by_prices=money,
        unpriced=sorted(unpriced),
    )


def together(parts: Iterable[Spending]) -> Spending:
    """Return what several agents spent together; who said nothing makes it a part."""
    rows = list(parts)
    tokens = [row.tokens for row in rows if row.tokens is not None]
    money = [row.usd for row in rows if row.usd is not None]
    return Spending(
        parts=len(rows),
        of="agents" if tokens or money else "",
        tokens=sum(tokens) if tokens else None,
        with_tokens=sum(row.whole_tokens for row in rows),
        usd=sum(money) if money else None,
        with_usd=sum(row.whole_usd for row in rows),
        usd_by_prices=sum(row.usd_by_prices for row in rows),
        unpriced=sorted({model for row in rows for model in row.unpriced}),
    )
