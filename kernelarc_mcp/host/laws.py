"""The ledger's laws, told a second time: from the rows alone, by other code than the replay's.

Attempts charged are submissions accepted; every submission gets one verdict; r, record, branch and error
budget are functions of the rows; nothing is ever overdrawn; a conclusion is proven and said once; a record
is measured once on each model of the extra boards, and nothing else is.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain

from kernelarc_mcp.host.events import (
    SEED,
    AgentAdded,
    Concluded,
    Created,
    Drafting,
    Event,
    ExtraMeasured,
    Interrupted,
    Judging,
    Remeasured,
    Settled,
    Staked,
    Submitted,
    Used,
)
from kernelarc_mcp.host.plateau import CORRECT_REVERTS
from kernelarc_mcp.host.state import AgentStanding, CampaignState

_ROUNDING = 1e-12
"""Relative difference that adding the same stakes in another order may make."""
_RETURNED = ("record_moved", "record_drifted", "device_quarantined")
"""Why a confirmation that was won is made again: its stake comes back."""


@dataclass
class _Own:
    """What the rows say of one agent, in their order."""

    submitted: int = 0
    r: int = 0
    episode: int = 0
    """The open one; 0: none."""
    correct: list[str] = field(default_factory=lambda: [SEED])
    """Submissions that became its branch, oldest first; `drafted` ones among them."""
    drafted: set[str] = field(default_factory=set)
    """Those of them that only a draft made a branch."""
    ran: float = 0.0
    """US dollars that its runs are known to have cost."""
    said: float = 0.0
    """US dollars that it said with its submissions."""


class Laws:
    """What was counted up to some row; `broken` compares it with a replayed state."""

    def __init__(self) -> None:
        self._own: dict[str, _Own] = defaultdict(_Own)
        self._submissions: dict[str, tuple[str, int]] = {}
        """Ticket -> its agent and drafting episode."""
        self._verdicts: dict[str, Settled] = {}
        self._requests: set[tuple[str, str]] = set()
        self._records: list[str] = [SEED]
        self._budget = 0.0
        self._left = 0.0
        self._out: dict[str, float] = {}
        """Ticket -> the stake that is out."""
        self._open: dict[str, tuple[str, str]] = {}
        """Ticket that is judged -> its agent and the record it is compared with."""
        self._in_flight = 1
        self._attempts = 0
        self._money: float | None = None
        self._pool = False
        self._agents = 0
        self._said: set[tuple[str, ...]] = set()
        self._extra_models: list[str] = []
        self._extra_owed: set[tuple[str, str]] = set()
        """Records that stand and models on which they were not measured yet."""
        self._findings: list[str] = []

    def note(self, event: Event) -> None:
        """Take one more row into account."""
        body, agent, ticket = event.body, event.agent, event.submission
        match body:
            case Created():
                self._budget = self._left = body.settings.parameters.wealth
                self._attempts = body.settings.attempts
                self._money, self._pool = body.settings.money, body.settings.pool
                self._agents = len(body.settings.agents)
                self._in_flight = body.settings.in_flight
                self._extra_models = body.settings.extra_models
            case AgentAdded():
                self._attempts += body.attempts or 0
                self._agents += 1
            case Used():
                self._own[agent].ran += body.cost_usd or body.priced_usd or 0.0
            case Submitted():
                self._submitted(event, body)
            case Drafting():
                self._own[agent].episode = body.episode
            case Judging():
                self._demand(event, ticket not in self._open, "claimed twice")
                self._open[ticket] = (agent, body.against)
                many = sum(whose == agent for whose, _ in self._open.values())
                self._demand(event, many <= self._in_flight, f"{many} of one agent are judged")
            case Staked():
                self._compared_with_the_record(event)
                self._left -= body.amount
                self._out[ticket] = body.amount
            case Interrupted():
                self._open.pop(ticket, None)
                staked = self._out.pop(ticket, 0.0)
                if body.cause in _RETURNED:
                    self._left += staked
            case Settled():
                self._settled(event, body)
            case Remeasured() if body.withdrawn:
                self._records.remove(body.record)
                self._withdrawn(body.record)
                self._extra_owed -= {(body.record, model) for model in self._extra_models}
            case ExtraMeasured():
                owed = (body.record, body.model)
                self._demand(event, owed in self._extra_owed, "measured for no extra board")
                self._extra_owed.discard(owed)
            case Concluded() if body.summary:
                said = (agent, body.evidence, body.conclusion_kind, body.summary, body.lesson)
                self._demand(event, said not in self._said, "said twice")
                self._demand(event, body.evidence in self._verdicts, "proven by no verdict")
                self._said.add(said)
            case _:
                pass

    def broken(self, state: CampaignState) -> list[str]:
        """Return the laws that a state does not keep, one line each."""
        standings = state.agents.values()
        found = [
            _unlike("attempts charged", state.used, len(self._submissions)),
            _unlike("attempts of all agents", sum(a.used for a in standings), state.used),
            _unlike("attempts of the campaign", state.total, self._attempts),
            _unlike("record", state.record.ticket, self._records[-1]),
            _unlike("owed to extra boards", set(state.extra_owed), self._extra_owed),
            _unlike(
                "submissions with a verdict",
                sum(attempt.state == "done" for attempt in state.attempts.values()),
                len(self._verdicts),
            ),
        ]
        found += chain.from_iterable(self._of(agent, state) for agent in standings)
        left = sum(state.wealth.values())
        if abs(left - self._left) > _ROUNDING * self._budget:
            found.append(f"error budget left: {left!r} where the rows give {self._left!r}")
        if min(state.wealth.values()) < 0 or left > self._budget * (1 + _ROUNDING):
            found.append(f"error budget left: {state.wealth}, of {self._budget}")
        return self._findings + [one for one in found if one]

    def _of(self, agent: AgentStanding, state: CampaignState) -> list[str]:
        own = self._own[agent.name]
        found = [
            _unlike(f"attempts of {agent.name}", agent.used, own.submitted),
            _unlike(f"r of {agent.name}", agent.r, own.r),
            _unlike(f"branch of {agent.name}", agent.branch, own.correct[-1]),
            _unlike(f"drafting of {agent.name}", agent.drafting, own.episode > 0),
        ]
        if state.attempts_left(agent.name) < 0:
            found.append(f"attempts left of {agent.name}: {state.attempts_left(agent.name)}")
        return found

    def _submitted(self, event: Event, body: Submitted) -> None:
        agent, ticket = event.agent, event.submission
        self._demand(event, ticket not in self._submissions, "charged twice")
        if body.request_id:
            request = (agent, body.request_id)
            self._demand(event, request not in self._requests, "its request was charged before")
            self._requests.add(request)
        self._submissions[ticket] = (agent, body.episode)
        self._demand(event, not self._spent(agent), "the money was spent")
        self._own[agent].said += body.proposal.cost or 0.0
        self._own[agent].submitted += 1
        self._demand(event, body.number == len(self._submissions), "numbers have a gap")

    def _spent(self, agent: str) -> bool:
        if self._money is None:
            return False
        who = list(self._own.values()) if self._pool else [self._own[agent]]
        share = self._money if self._pool else self._money / self._agents
        # Beyond what adding the same sums in another order may make.
        return sum(max(own.ran, own.said) for own in who) > share * (1 + _ROUNDING)

    def _settled(self, event: Event, body: Settled) -> None:
        ticket = event.submission
        self._demand(event, ticket in self._submissions, "a verdict on nothing")
        self._demand(event, ticket not in self._verdicts, "a second verdict")
        self._verdicts[ticket] = body
        staked = self._out.pop(ticket, 0.0)
        if body.verdict == "KEEP":
            self._compared_with_the_record(event)
            self._left += staked
            self._records.append(ticket)
            self._extra_owed |= {(ticket, model) for model in self._extra_models}
        self._open.pop(ticket, None)
        if body.verdict == "REJECT" or ticket not in self._submissions:
            return
        agent, episode = self._submissions[ticket]
        own = self._own[agent]
        draft = own.episode > 0 and episode == own.episode
        if body.verdict in ("KEEP", "ACCEPT"):
            own.correct.append(ticket)
        elif draft and body.reason in CORRECT_REVERTS:
            own.correct.append(ticket)
            own.drafted.add(ticket)
        if draft or body.verdict == "KEEP":
            own.r, own.episode = 0, 0
        else:
            own.r += 1

    def _compared_with_the_record(self, event: Event) -> None:
        """Demand that what costs or moves something is about the record that stands."""
        _, against = self._open.get(event.submission, ("", ""))
        self._demand(event, against == self._records[-1], f"{against} was not the record")

    def _withdrawn(self, record: str) -> None:
        """Take a record out of every agent's past; whose branch it was is back at its last verdict."""
        for own in self._own.values():
            if own.correct[-1] == record:
                # What only a draft made a branch is passed over: it was never shown to be close.
                stands = [t for t in own.correct if t != record and t not in own.drafted]
                own.correct = stands
                own.drafted.clear()
            elif record in own.correct:
                own.correct.remove(record)

    def _demand(self, event: Event, holds: bool, broken: str) -> None:
        if not holds:
            self._findings.append(f"event row {event.seq}: {broken}")


def _unlike(what: str, stated: object, counted: object) -> str:
    return "" if stated == counted else f"{what}: {stated!r} where the rows give {counted!r}"
