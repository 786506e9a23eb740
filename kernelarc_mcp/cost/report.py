"""What a campaign cost per agent, per KEEP and per 1 % gained, in numbers and in words."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kernelarc_guard.model import Model
from kernelarc_mcp.cost.prices import Prices, PricesError, read_prices
from kernelarc_mcp.cost.spending import Spending, spending_of, together
from kernelarc_mcp.cost.told import Told
from kernelarc_mcp.host.money import dollars, spent_by
from kernelarc_mcp.host.state import CampaignState

ALL: Final = ""
"""Stands for the agent's name where a row is of all of them."""
_ONE_PERCENT: Final = 100 * math.log(1.01)
UNKNOWN: Final = "unknown"


class CostRow(Model):
    """What one agent, or all together, spent and gained."""

    agent: str
    """Empty: all together."""
    models: list[str]
    """That its clients named."""
    spent: Spending
    keeps: int
    """Records that stand."""
    gain_percent: float
    """100 * ln of what they gained together; `steps` is how many gains of 1 % make it."""
    steps: float
    tokens_per_keep: float | None
    usd_per_keep: float | None
    tokens_per_percent: float | None
    """Per 1 % gained."""
    usd_per_percent: float | None
    tokens: str
    """In words, as are the next five; a part of a sum says so."""
    usd: str
    keep_tokens: str
    keep_usd: str
    percent_tokens: str
    percent_usd: str


class CostReport(Model):
    """What a campaign cost."""

    agents: list[CostRow]
    total: CostRow
    notes: list[str]
    """What the sums rest on and what is missing, in words."""


def cost_report(state: CampaignState, told: Mapping[str, Told], folder: Path) -> CostReport:
    """Return the costs at `state`; `told` is what each agent said with its submissions.

    A file of prices in `folder` that cannot be used is named in the notes, and no price is known then.
    """
    trouble = ""
    try:
        prices = read_prices(folder)
    except PricesError as error:
        prices, trouble = Prices({}), f"No price is known: {error}"
    standing = [step for step in state.records if step.agent is not None and not step.withdrawn]
    rows = []
    for name, agent in state.agents.items():
        own = [step.gain for step in standing if step.agent == name and step.gain]
        said = told.get(name, Told())
        spent = spending_of(agent.usage, said, prices)
        rows.append(_row(name, agent.usage.models | said.models, spent, own))
    # Who never took part spent nothing that could be missing.
    took_part = [row.spent for row in rows if state.agents[row.agent].used or row.spent.of]
    models = {model for row in rows for model in row.models}
    gains = [step.gain for step in standing if step.gain]
    total = _row(ALL, models, together(took_part), gains)
    notes = _limit(state) + _notes(total.spent, trouble)
    return CostReport(agents=rows, total=total, notes=notes)


def _limit(state: CampaignState) -> list[str]:
    money, purses = state.campaign.settings.money, state.purses
    if money is None:
        return []
    known = f"{dollars(spent_by(purses.values()))} are known of from the ledger's rows"
    missing = [f"{purse.missing} of {name}" for name, purse in purses.items() if purse.missing]
    shared = "of all together" if state.campaign.settings.pool else "in even shares"
    lines = [f"Limit: {dollars(money)} {shared}; {known}."]
    if missing:
        lines.append(f"Without a known cost, so not counted towards it: {', '.join(missing)}.")
    return lines


def _row(agent: str, models: set[str], spent: Spending, gains: list[float]) -> CostRow:
    gain = math.fsum(100 * math.log(one) for one in gains)
    steps = gain / _ONE_PERCENT
    keeps = len(gains)
    tokens, usd = spent.tokens, spent.usd
    per = {
        "tokens_per_keep": _per(tokens, keeps),
        "usd_per_keep": _per(usd, keeps),
        "tokens_per_percent": _per(tokens, steps),
        "usd_per_percent": _per(usd, steps),
    }
    return CostRow(
        agent=agent,
        models=sorted(models),
        spent=spent,
        keeps=keeps,
        gain_percent=gain,
        steps=steps,
        **per,
        tokens=_whole(_tokens(tokens, spent.whole_tokens), spent.with_tokens, spent),
        usd=_whole(_usd(usd, spent.whole_usd), spent.with_usd, spent),
        keep_tokens=_share(_tokens(per["tokens_per_keep"], spent.whole_tokens), keeps),
        keep_usd=_share(_usd(per["usd_per_keep"], spent.whole_usd), keeps),
        percent_tokens=_share(_tokens(per["tokens_per_percent"], spent.whole_tokens), keeps),
        percent_usd=_share(_usd(per["usd_per_percent"], spent.whole_usd), keeps),
    )


def _per(spent: float | None, count: float) -> float | None:
    return spent / count if spent is not None and count > 0 else None


def _tokens(value: float | None, whole: bool) -> str:
    return UNKNOWN if value is None else f"{'' if whole else 'at least '}{value:,.0f}"


def _usd(value: float | None, whole: bool) -> str:
    if value is None:
        return UNKNOWN
    return f"{'' if whole else 'at least '}{value:.{2 if value >= 1 else 4}f} USD"


def _whole(words: str, known: int, spent: Spending) -> str:
    """Return a sum with what it is the part of."""
    if words == UNKNOWN or known == spent.parts:
        return words
    return f"{words} ({known} of {spent.parts} {spent.of} known whole)"


def _share(words: str, keeps: int) -> str:
    return words if keeps else "no KEEP"


def _notes(spent: Spending, trouble: str) -> list[str]:
    notes = []
    if not spent.of:
        notes.append("No client said what it used: tokens and money are unknown, not zero.")
    elif not (spent.whole_tokens and spent.whole_usd):
        notes.append("Sums that a run or an agent is missing from are told as `at least`.")
    if spent.usd_by_prices:
        said = f"{spent.usd_by_prices:.4f} USD"
        notes.append(
            f"{said} of it follow from tokens and the table of prices; clients said the rest."
        )
    if spent.unpriced:
        notes.append(f"Tokens without a known price: of {', '.join(spent.unpriced)}.")
    if trouble:
        notes.append(trouble)
    return notes
