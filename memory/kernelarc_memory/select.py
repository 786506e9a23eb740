"""Which conclusions a reader is shown: a pure function of what is kept."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from kernelarc_memory.conclusion import Stored, parse_time
from kernelarc_memory.retention import Retention


def select(
    kept: Iterable[Stored],
    retention: Retention,
    limit: int,
    *,
    now: datetime,
    campaign: str = "",
    position: int | None = None,
) -> list[Stored]:
    """Choose at most `limit` conclusions inside the horizon and return them newest first.

    Where not all fit, wins and traps share the places evenly, and a side with too few leaves its
    places to the other. Within a side confirmed gains (KEEP) come before near ties (ACCEPT), the
    newer before the older. `position` is the number of submissions `campaign` has charged.
    """
    inside = [c for c in kept if _is_inside(c, retention, now, campaign, position)]
    places = limit if retention.count is None else min(limit, retention.count)
    wins = sorted((c for c in inside if c.kind == "win"), key=_usefulness, reverse=True)
    traps = sorted((c for c in inside if c.kind == "trap"), key=_usefulness, reverse=True)
    for_wins = min(len(wins), max(places - len(traps), (places + 1) // 2))
    chosen = wins[:for_wins] + traps[: max(0, places - for_wins)]
    return sorted(chosen, key=_age, reverse=True)


def _is_inside(
    conclusion: Stored,
    retention: Retention,
    now: datetime,
    campaign: str,
    position: int | None,
) -> bool:
    latest = conclusion.latest
    if retention.hours is not None:
        oldest = now - timedelta(hours=retention.hours)
        if parse_time(latest.at) < oldest:
            return False
    if retention.submissions is None or position is None or latest.campaign != campaign:
        return True
    return latest.position > position - retention.submissions


def _age(conclusion: Stored) -> tuple[datetime, int]:
    return parse_time(conclusion.latest.at), conclusion.id


def _usefulness(conclusion: Stored) -> tuple[bool, datetime, int]:
    confirmed = any(proof.verdict == "KEEP" for proof in conclusion.proofs)
    return confirmed, *_age(conclusion)
