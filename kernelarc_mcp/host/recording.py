"""Recording in the ledger what decides nothing."""

from kernelarc_mcp.cost.prices import read_prices
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import UnknownAgent
from kernelarc_mcp.host.usage import Used


def record_usage(campaign: Campaign, agent: str, used: Used) -> bool:
    """Store what a run of an agent's client used; False where that run was stored before.

    In a campaign with a limit on money a run whose client said no cost is priced now, for prices
    may change; PricesError where the campaign's own file of prices cannot be used.
    """
    if campaign.settings.money is not None:
        used = _priced(campaign, used)
    with campaign.journal.writing() as writer:
        standing = writer.state.agents.get(agent)
        if standing is None:
            expected = ", ".join(writer.state.agents)
            raise UnknownAgent(f"there is no agent {agent!r} in this campaign; it has {expected}")
        if used.run in standing.usage.runs:
            return False
        writer.append(used, agent)
    return True


def _priced(campaign: Campaign, used: Used) -> Used:
    counts = (used.input_tokens, used.cached_tokens, used.output_tokens)
    price = read_prices(campaign.folder).of(used.model)
    if used.cost_usd is not None or price is None or None in counts:
        return used
    usd = price.usd(used.input_tokens or 0, used.cached_tokens or 0, used.output_tokens or 0)
    return used.model_copy(update={"priced_usd": usd})
