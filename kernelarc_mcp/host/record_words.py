"""What is said of records that are doubted or withdrawn, to the log and to agents; pure."""

from typing import Final

from kernelarc_guard.reasons import REASONS
from kernelarc_mcp.host.events import SEED, Remeasured, Suspected
from kernelarc_mcp.host.state import Attempt, CampaignState, RecordStep

_ROOM: Final = 400
"""Characters of what was seen of a record that stand in a next step."""


def doubt_line(state: CampaignState, body: Suspected | Remeasured) -> str:
    """Return what a row said of its record, once it is applied; empty where the record stands."""
    if isinstance(body, Suspected):
        again = f"{body.record} is suspect ({body.reason}) and is measured again"
        return f"the record {again}: {body.detail}"
    step = state.step_of(body.record)
    if not body.withdrawn or step is None:
        return ""
    gone = f"the record {body.record} is withdrawn ({body.withdrawn}): {_why(step)}"
    return f"{gone} The record is {state.record.ticket} now."


def withdrawn_words(state: CampaignState, ticket: str) -> str:
    """Return that and why a record is withdrawn, for its own agent; empty where it is not."""
    step = state.step_of(ticket)
    if step is None or not step.withdrawn:
        return ""
    why = _why(step)
    why = why if len(why) <= _ROOM else f"{why[: _ROOM - 6]} [...]"
    return f"It was the record and is withdrawn ({step.withdrawn}), so it is no win: {why}"


def told_detail(state: CampaignState, attempt: Attempt) -> str:
    """Return a verdict's detail, as its agent reads it, with what it was compared with.

    The ledger calls that the record, and holds an earlier win against a withdrawn one in rows of its own.
    """
    result = attempt.confirmation or attempt.screen
    told, against = attempt.detail, attempt.against
    if against == SEED and result is not None and result.decision is not None:
        told = told.replace("the record's speed", "the seed's speed")
    before = state.step_of(attempt.doubted)
    if attempt.verdict is None or before is None or not before.withdrawn:
        return told
    # How another's record failed may quote its source.
    drifted = before.withdrawn == "record_drifted"
    why = _why(before) if drifted else REASONS[before.withdrawn].says
    beside = "the seed" if against == SEED else against
    return (
        f"{told} It was judged again, against {beside}: it had won against {before.ticket}, which was"
        f" withdrawn ({before.withdrawn}): {why}"
    ).strip()


def _why(step: RecordStep) -> str:
    return step.withdrawn_detail or REASONS[step.withdrawn].says
