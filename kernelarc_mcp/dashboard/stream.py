"""Submissions as the page lists them, a page at a time."""

from itertools import islice
from typing import Final

from kernelarc_guard.model import Model
from kernelarc_guard.reasons import REASONS
from kernelarc_mcp.host.state import Attempt, CampaignState

STREAM: Final = 100
"""Attempts of one page."""


class StreamRow(Model):
    """One attempt as anybody may see it: nothing that quotes its source."""

    submission: str
    number: int
    """Of all attempts."""
    agent: str
    state: str
    verdict: str | None
    reason: str | None
    says: str
    """The reason in words."""
    speedup: float | None
    """Over the record it was compared with."""
    against: str
    lens: str
    draft: bool
    parent: str
    """What its author stood on."""
    summary: str
    at: str
    settled_at: str


class StreamPage(Model):
    """A page of attempts."""

    rows: list[StreamRow]
    """The newest verdict or submission first."""
    older: int | None
    """`before` of the next page; null: there is none."""
    attempts: int
    """How many there are."""


def stream_page(state: CampaignState, before: int | None = None) -> StreamPage:
    """Return the newest attempts, or the newest of those with a number below `before`."""
    known = len(state.attempts)
    last = known if before is None else max(0, min(known, before - 1))
    # Numbers are in the order of submission; what is not settled is never far from the newest.
    tickets = islice(reversed(state.attempts), known - last, known - last + STREAM)
    newest = [state.attempts[ticket] for ticket in tickets]
    newest.sort(key=lambda one: -(one.settled_seq or one.last_seq))
    left = last - len(newest)
    older = left + 1 if left > 0 else None
    return StreamPage(rows=[_row(one) for one in newest], older=older, attempts=known)


def _row(attempt: Attempt) -> StreamRow:
    reason = REASONS.get(attempt.reason or "")
    return StreamRow(
        submission=attempt.ticket,
        number=attempt.number,
        agent=attempt.agent,
        state=attempt.state,
        verdict=attempt.verdict,
        reason=attempt.reason,
        says="" if reason is None else reason.says,
        speedup=attempt.speedup,
        against=attempt.against,
        lens=attempt.lens,
        draft=attempt.episode > 0,
        parent=attempt.parent,
        summary=attempt.proposal.summary[:300],
        at=attempt.at,
        settled_at=attempt.settled_at,
    )
