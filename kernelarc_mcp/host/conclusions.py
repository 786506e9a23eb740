"""Reading and writing the shared memory: the host adds what it measured to what an agent says."""

from functools import lru_cache
from typing import Literal

from kernelarc_guard.reasons import Verdict
from kernelarc_mcp.host.advice import next_step
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import BadRequest, NotAllowed, StorageFault, UnknownTicket
from kernelarc_mcp.host.events import Concluded
from kernelarc_mcp.host.onlookers import NEXT_STEP, ONLOOKER
from kernelarc_mcp.host.shared_memory import conclusion_of, follow_or_wait, shelf_of
from kernelarc_mcp.host.storage import storage_faults
from kernelarc_mcp.host.tickets import own_attempt, standing_of
from kernelarc_mcp.views import ConclusionStored, ConclusionView, MemoryView
from kernelarc_memory import ConclusionRefused, MemoryStore, Stored
from kernelarc_memory.conclusion import check, text_digest

MAX_LIMIT = 200
ROOM = 9_300
"""Characters for the conclusions of one answer: some clients cut from 10,000 on, in the middle."""
_KNOWN = 512
"""Conclusions that are kept as they are shown."""
_KINDS: dict[str, Literal["win", "trap"]] = {"win": "win", "trap": "trap"}
_VERDICTS: dict[str, Verdict] = {v: v for v in ("REJECT", "KEEP", "ACCEPT", "REVERT")}


def memory_of(campaign: Campaign) -> MemoryStore:
    """Return the campaign's memory, its own or the one it shares with others, up to its newest row."""
    return follow_or_wait(campaign).store()


def read_memory(
    campaign: Campaign, agent: str, limit: int = 16, kind: str = "", offset: int = 0
) -> MemoryView:
    """Return the conclusions the retention shows, newest first; onlookers may read them too.

    Leaves out the first `offset` of them, and those there is no room for: `next_offset` leads on.
    """
    if kind not in ("", "win", "trap"):
        raise BadRequest(f"kind: {kind[:40]!r}; it is win, trap or empty for both")
    if not 1 <= limit <= MAX_LIMIT:
        raise BadRequest(f"limit: {limit}; it is 1 to {MAX_LIMIT}")
    if offset < 0:
        raise BadRequest(f"offset: {offset}; it counts conclusions from 0")
    with campaign.journal.reading() as state:
        if agent == ONLOOKER:
            step = NEXT_STEP
        else:
            standing_of(state, agent)
            now, workspace = campaign.journal.now(), campaign.shown_workspace(agent)
            step = next_step(state, agent, now, workspace, "memory")
    items, stored = shown_conclusions(campaign, limit, kind)
    shown = _fitting(items[offset:])
    end = offset + len(shown)
    return MemoryView(
        conclusions=shown,
        shown=len(shown),
        next_offset=end if end < len(items) else None,
        stored=stored,
        retention=str(campaign.settings.memory_retention()),
        next_step=step,
    )


def shown_conclusions(
    campaign: Campaign, limit: int, kind: str = ""
) -> tuple[list[ConclusionView], int]:
    """Return the newest conclusions that the retention shows, however long, and how many are stored."""
    with campaign.journal.reading() as state:
        position = state.used
        operator_class = state.campaign.operator_class
    shelf = follow_or_wait(campaign)
    with storage_faults(shelf.path.parent, shelf.path.name):
        page = shelf.store().read(
            operator_class,
            campaign.settings.device,
            campaign.settings.memory_retention(),
            limit,
            kind,
            now=campaign.journal.now(),
            campaign=campaign.settings.name,
            position=position,
        )
    return [_view(stored) for stored in page.items], page.stored


def conclude(
    campaign: Campaign, agent: str, kind: str, summary: str, lesson: str, evidence: str
) -> ConclusionStored:
    """Store a win or a trap, proven by one of the agent's own submissions that has its verdict."""
    proven = _KINDS.get(kind)
    if proven is None:
        raise BadRequest(f"kind: {kind[:40]!r}; it is win or trap")
    with campaign.journal.writing() as writer:
        state = writer.state
        standing_of(state, agent)
        if not evidence:
            raise UnknownTicket("evidence: name the submission that proves it")
        attempt = own_attempt(state, agent, evidence)
        if attempt.verdict is None or attempt.reason is None:
            raise NotAllowed(f"{evidence} has no verdict yet: wait for it with wait_submission")
        body = Concluded(
            conclusion_kind=proven,
            evidence=evidence,
            summary=summary,
            lesson=lesson,
            position=state.used,
        )
        try:
            check(conclusion_of(state, agent, writer.at, body))
        except ConclusionRefused as refused:
            raise BadRequest(str(refused)) from refused
        said = (agent, evidence, proven, text_digest(summary, lesson))
        before = state.concluded.get(said)
        if before is None:
            writer.append(body, agent)
        key = campaign.journal.ledger.hash_of(before or state.seq) or ""
        step = next_step(state, agent, writer.at, campaign.shown_workspace(agent))
    shelf = shelf_of(campaign)
    try:
        written = shelf.follow(campaign).get(key) or shelf.find(key)
    except StorageFault as fault:
        raise StorageFault(
            f"your conclusion is recorded, and the memory shows it once it can be written: there is"
            f" nothing to repeat. {fault}"
        ) from fault
    merged = written.merged or before is not None
    return ConclusionStored(id=written.id, merged=merged, next_step=step)


def _fitting(views: list[ConclusionView]) -> list[ConclusionView]:
    """Return the first of the views, as many as there is room for, at least one."""
    room = ROOM
    for count, view in enumerate(views):
        room -= _length(view) + 1
        if room < 0:
            return views[: max(1, count)]
    return views


@lru_cache(maxsize=_KNOWN)
def _length(view: ConclusionView) -> int:
    return len(view.model_dump_json())


@lru_cache(maxsize=_KNOWN)
def _view(stored: Stored) -> ConclusionView:
    """Return a conclusion as it is shown; the same object for the same conclusion, as readers come often."""
    proof = stored.first
    return ConclusionView(
        id=stored.id,
        kind=stored.kind,
        summary=stored.summary,
        lesson=stored.lesson,
        agent=proof.agent,
        lens=proof.lens,
        evidence=proof.evidence,
        verdict=_VERDICTS[proof.verdict],
        reason=proof.reason,
        speedup=proof.speedup,
        device=stored.device,
        operator_class=stored.operator_class,
        campaign=proof.campaign,
        at=proof.at,
        seen=stored.seen,
    )
