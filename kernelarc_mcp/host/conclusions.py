"""Reading and writing the shared memory: the host adds what it measured to what an agent says."""

from functools import lru_cache
from pathlib import Path
from typing import Literal

from kernelarc_guard.reasons import Verdict
from kernelarc_mcp.host.advice import next_step
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import BadRequest, NotAllowed, UnknownTicket
from kernelarc_mcp.host.events import Concluded
from kernelarc_mcp.host.onlookers import NEXT_STEP, ONLOOKER
from kernelarc_mcp.host.tickets import own_attempt, standing_of
from kernelarc_mcp.views import ConclusionStored, ConclusionView, MemoryView
from kernelarc_memory import ConclusionRefused, MemoryStore, NewConclusion, Stored

MAX_LIMIT = 200
ROOM = 9_300
"""Characters for the conclusions of one answer: some clients cut from 10,000 on, in the middle."""
_KINDS: dict[str, Literal["win", "trap"]] = {"win": "win", "trap": "trap"}
_VERDICTS: dict[str, Verdict] = {v: v for v in ("REJECT", "KEEP", "ACCEPT", "REVERT")}


@lru_cache(maxsize=16)
def _store(path: Path) -> MemoryStore:
    return MemoryStore(path)


def memory_of(campaign: Campaign) -> MemoryStore:
    """Return the campaign's memory, its own or the one it shares with others."""
    shared = campaign.settings.memory
    return _store(Path(shared) if shared else campaign.folder / "memory.db")


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
    retention = campaign.settings.memory_retention()
    with campaign.journal.reading() as state:
        position = state.used
        operator_class = state.campaign.operator_class
        now = campaign.journal.now()
        if agent == ONLOOKER:
            step = NEXT_STEP
        else:
            standing_of(state, agent)
            step = next_step(state, agent, now, str(campaign.workspace(agent)), "memory")
    page = memory_of(campaign).read(
        operator_class,
        campaign.settings.device,
        retention,
        limit,
        kind,
        now=now,
        campaign=campaign.settings.name,
        position=position,
    )
    shown = _fitting([_view(stored) for stored in page.items[offset:]])
    end = offset + len(shown)
    return MemoryView(
        conclusions=shown,
        shown=len(shown),
        next_offset=end if end < len(page.items) else None,
        stored=page.stored,
        retention=str(retention),
        next_step=step,
    )


def conclude(
    campaign: Campaign, agent: str, kind: str, summary: str, lesson: str, evidence: str
) -> ConclusionStored:
    """Store a win or a trap, proven by one of the agent's own submissions that has its verdict."""
    proven = _KINDS.get(kind)
    if proven is None:
        raise BadRequest(f"kind: {kind[:40]!r}; it is win or trap")
    with campaign.journal.writing() as writer:
        state = writer.state
        standing = standing_of(state, agent)
        if not evidence:
            raise UnknownTicket("evidence: name the submission that proves it")
        attempt = own_attempt(state, agent, evidence)
        if attempt.verdict is None or attempt.reason is None:
            raise NotAllowed(f"{evidence} has no verdict yet: wait for it with wait_submission")
        new = NewConclusion(
            kind=proven,
            summary=summary,
            lesson=lesson,
            evidence=evidence,
            agent=agent,
            lens=attempt.lens or standing.lens,
            verdict=attempt.verdict,
            reason=attempt.reason,
            speedup=attempt.speedup,
            device=campaign.settings.device,
            operator_class=state.campaign.operator_class,
            campaign=campaign.settings.name,
            at=writer.at,
            position=state.used,
        )
        try:
            written = memory_of(campaign).write(new)
        except ConclusionRefused as refused:
            raise BadRequest(str(refused)) from refused
        writer.append(
            Concluded(conclusion=written.id, conclusion_kind=proven, evidence=evidence), agent
        )
        step = next_step(state, agent, writer.at, str(campaign.workspace(agent)))
    return ConclusionStored(id=written.id, merged=written.merged, next_step=step)


def _fitting(views: list[ConclusionView]) -> list[ConclusionView]:
    """Return the first of the views, as many as there is room for, at least one."""
    room = ROOM
    for count, view in enumerate(views):
        room -= len(view.model_dump_json()) + 1
        if room < 0:
            return views[: max(1, count)]
    return views


def _view(stored: Stored) -> ConclusionView:
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
