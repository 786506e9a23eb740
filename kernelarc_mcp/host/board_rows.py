"""The rows of the leaderboard, a page at a time: nothing here looks at all of a long campaign."""

from itertools import islice

from kernelarc_mcp.host.board_parts import languages_of_record, ratio_view
from kernelarc_mcp.host.state import AgentStanding, Attempt, CampaignState, RecordStep
from kernelarc_mcp.views import AgentRow, BoardRow


class Places:
    """Records, best first, then branches that are no records, then withdrawn records."""

    def __init__(self, state: CampaignState) -> None:
        """Sort what has to be sorted: the agents' branches."""
        self._state = state
        known = state.record_places
        gone = {
            a.branch: state.attempts[a.branch]
            for a in state.agents.values()
            if a.branch not in known
        }
        self._branches = sorted(gone.values(), key=_gain_of_branch, reverse=True)

    def __len__(self) -> int:
        """Return how many rows there are."""
        state = self._state
        return len(state.ranking) + len(self._branches) + len(state.withdrawn)

    def rows(self, first: int, most: int) -> list[BoardRow]:
        """Return at most `most` rows from rank `first` (from 1) on."""
        return [self._row(rank) for rank in range(first, min(len(self), first + most - 1) + 1)]

    def _row(self, rank: int) -> BoardRow:
        state, place = self._state, rank - 1
        if place < len(state.ranking):
            return _record_row(state, state.records[state.ranking[place][1]], rank)
        place -= len(state.ranking)
        if place < len(self._branches):
            return _branch_row(state, self._branches[place], rank)
        place -= len(self._branches)
        return _record_row(state, state.records[state.withdrawn[place]], rank)


def agents_in_order(state: CampaignState, agent: str) -> list[AgentStanding]:
    """Return the agents: `agent` itself, then those with the best gain, then in their order."""
    return sorted(state.agents.values(), key=lambda one: (one.name != agent, -(one.best or 0.0)))


def agent_rows(
    state: CampaignState, agents: list[AgentStanding], first: int, most: int
) -> list[AgentRow]:
    """Return at most `most` agents' rows from the one numbered `first` (from 1) on."""
    return [
        AgentRow(
            agent=one.name,
            lens=one.lens,
            r=one.r,
            drafts=one.drafts,
            attempts_used=one.used,
            attempts_left=state.attempts_left(one.name),
            verdicts={str(verdict): count for verdict, count in one.verdicts.items()},
            best=one.best,
            usage=one.usage.view(),
        )
        for one in islice(agents, first - 1, first - 1 + most)
    ]


def _gain_of_branch(attempt: Attempt) -> float:
    """Return at most 1: no gain of a branch that is no record was confirmed."""
    return min(1.0, attempt.speedup or 1.0)


def _record_row(state: CampaignState, step: RecordStep, rank: int) -> BoardRow:
    attempt = state.attempts.get(step.ticket)
    return BoardRow(
        rank=rank,
        submission=step.ticket,
        agent=step.agent,
        verdict=None if attempt is None else attempt.verdict,
        speedup=step.speedup,
        over_seed=ratio_view(step.over_seed),
        gain=step.gain,
        lower=step.lower,
        withdrawn=step.withdrawn,
        languages=languages_of_record(state, step.ticket),
        lens=None if attempt is None else attempt.lens,
        summary="The first record." if attempt is None else attempt.proposal.summary,
        at_attempt=step.number,
    )


def _branch_row(state: CampaignState, attempt: Attempt, rank: int) -> BoardRow:
    measured = attempt.confirmation and attempt.confirmation.anchored
    over_seed = measured.candidate if measured else None
    return BoardRow(
        rank=rank,
        submission=attempt.ticket,
        agent=attempt.agent,
        verdict=attempt.verdict,
        speedup=None if over_seed is None else over_seed.ratio,
        over_seed=ratio_view(over_seed),
        gain=_gain_of_branch(attempt),
        lower=None,
        withdrawn="",
        languages=languages_of_record(state, attempt.ticket),
        lens=attempt.lens,
        summary=attempt.proposal.summary,
        at_attempt=attempt.number,
    )
