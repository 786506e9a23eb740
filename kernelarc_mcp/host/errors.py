"""What a caller of the host can get wrong; every message is written for the model that reads it."""


class HostError(Exception):
    """Base of every refusal: nothing was stored and nothing was charged.

    HostError
    ├── BadRequest        an argument is not possible
    ├── UnknownAgent      no such agent in this campaign
    ├── UnknownTicket     no such submission in this campaign
    ├── NotYours          the submission belongs to another agent
    ├── NotAllowed        possible, but not now or not for this agent
    ├── BudgetSpent       no attempt is left
    └── CampaignError     the campaign's directory cannot be used
        ├── LedgerBroken  its rows contradict one another
        └── StorageFault  its disk or its files fail; what to do is in the message
    """


class BadRequest(HostError):
    """An argument is not possible."""


class UnknownAgent(HostError):
    """No such agent in this campaign."""


class UnknownTicket(HostError):
    """No such submission in this campaign."""


class NotYours(HostError):
    """The submission belongs to another agent."""


class NotAllowed(HostError):
    """Possible, but not now or not for this agent."""


class BudgetSpent(HostError):
    """No attempt is left."""


class CampaignError(HostError):
    """The campaign's directory cannot be used."""


class LedgerBroken(CampaignError):
    """The ledger's rows contradict one another."""


class StorageFault(CampaignError):
    """The campaign's disk or its files fail; what to do is in the message."""
