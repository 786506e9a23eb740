"""What agents said with their submissions that these had used, summed by the database."""

from dataclasses import dataclass, field
from typing import Final

from kernelarc_mcp.host.campaign import Campaign

_MOST_MODELS: Final = 5
"""That are named of an agent, which may invent as many as it likes."""
_SUMS: Final = (
    "SELECT agent, count(*), total(json_extract(body, '$.proposal.tokens')),"
    " count(json_extract(body, '$.proposal.tokens')), total(json_extract(body, '$.proposal.cost')),"
    " count(json_extract(body, '$.proposal.cost'))"
    " FROM event WHERE kind = 'submitted' AND seq > ? AND seq <= ? GROUP BY agent"
)
_MODELS: Final = (
    "SELECT DISTINCT agent, json_extract(body, '$.proposal.model')"
    " FROM event WHERE kind = 'submitted' AND seq > ? AND seq <= ?"
)


@dataclass
class Told:
    """What an agent said with its submissions."""

    submissions: int = 0
    tokens: int = 0
    with_tokens: int = 0
    usd: float = 0.0
    with_usd: int = 0
    models: set[str] = field(default_factory=set)


class ToldSoFar:
    """Follows one campaign; each look reads only the rows that came since."""

    def __init__(self, campaign: Campaign) -> None:
        """Have seen nothing yet."""
        self._campaign = campaign
        self._seen = 0
        self._told: dict[str, Told] = {}

    def look(self, newest: int) -> dict[str, Told]:
        """Return the sums of each agent that submitted up to row `newest`."""
        connection = self._campaign.journal.ledger.connection
        window = [self._seen, newest]
        for agent, submissions, tokens, with_tokens, usd, with_usd in connection.execute(
            _SUMS, window
        ):
            told = self._told.setdefault(agent, Told())
            told.submissions += submissions
            told.tokens += int(tokens)
            told.with_tokens += with_tokens
            told.usd += usd
            told.with_usd += with_usd
        for agent, model in connection.execute(_MODELS, window):
            models = self._told[agent].models
            if model and len(models) < _MOST_MODELS:
                models.add(model)
        self._seen = newest
        return self._told
