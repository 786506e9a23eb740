"""What is known to have been spent of a campaign's money, from the ledger's rows; pure.

All of it is a lower bound: what no client told is not counted, and how much of that there is is said.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kernelarc_mcp.host.usage import UsageTotals


@dataclass
class Purse:
    """What one agent is known to have spent."""

    usage: UsageTotals = field(default_factory=UsageTotals)
    told_usd: float = 0.0
    """What it said its submissions had cost."""
    told: int = 0
    """Submissions that it said a cost of."""
    submissions: int = 0

    def submitted(self, cost: float | None) -> None:
        """Count a submission, with what its agent said it had cost."""
        self.submissions += 1
        self.told += cost is not None
        self.told_usd += cost or 0.0

    @property
    def usd(self) -> float:
        """Return the larger of what its runs and what its submissions add up to: they overlap."""
        return max(self.usage.known_usd, self.told_usd)

    @property
    def missing(self) -> str:
        """Return what has no known cost, in words; empty where all has one."""
        runs = self.usage
        if runs.runs:
            unknown, of, what = len(runs.runs) - runs.with_known_usd, len(runs.runs), "runs"
        else:
            unknown, of, what = self.submissions - self.told, self.submissions, "submissions"
        return f"{unknown} of {of} {what}" if unknown else ""


def reached(money: float, pool: bool, agents: int, purse: Purse, everybody: float) -> str:
    """Return that an agent has no money left, in words, or an empty string.

    Without a pool each of `agents` agents has an even share; with one the sum over `everybody` counts.
    """
    if pool:
        if everybody < money:
            return ""
        return f"the campaign's {dollars(money)} are spent ({dollars(everybody)} are known of)"
    share = money / agents
    if purse.usd < share:
        return ""
    return (
        f"your share of the campaign's {dollars(money)}, {dollars(share)}, is spent"
        f" ({dollars(purse.usd)} are known of)"
    )


def left(money: float, pool: bool, purses: dict[str, Purse], agent: str) -> str:
    """Return what an agent may still spend, in words, with what is not known."""
    if pool:
        most, spent = money, spent_by(purses.values())
        unknown = [f"{purse.missing} of {name}" for name, purse in purses.items() if purse.missing]
        missing = "; ".join(unknown[:3]) + ("; and of more" if len(unknown) > 3 else "")
    else:
        most, spent = money / len(purses), purses[agent].usd
        missing = purses[agent].missing
    rest = f"at most {dollars(max(0.0, most - spent))} of {dollars(most)}"
    whose = " for all agents together" if pool else ""
    return f"{rest}{whose}" + (f"; not counted, as no cost is known: {missing}" if missing else "")


def spent_by(purses: Iterable[Purse]) -> float:
    """Return what agents are known to have spent together."""
    return sum(purse.usd for purse in purses)


def dollars(amount: float) -> str:
    """Return an amount with its unit; cents, and what there is below one."""
    return f"{amount:.2f} USD" if amount >= 0.01 or not amount else f"{amount:.2g} USD"
