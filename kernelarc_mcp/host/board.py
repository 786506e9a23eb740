"""The leaderboard: confirmed gains only, and the lines to beat."""

from typing import Final

from kernelarc_mcp.host.advice import next_step
from kernelarc_mcp.host.board_parts import (
    campaign_calibration,
    canaries_view,
    goal_now,
    record_view,
)
from kernelarc_mcp.host.board_rows import Places, agent_rows, agents_in_order
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.credit import lens_credit
from kernelarc_mcp.host.events import SEED
from kernelarc_mcp.host.extra_board import other_models_in_short
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.host.tickets import standing_of
from kernelarc_mcp.views import BaselineView, Board, BoardRow

ROOM: Final = 9_900
"""Characters an answer should fit in: some clients cut from 10,000 on, in the middle."""
MOST_ROWS: Final = 30
FEWEST_ROWS: Final = 4
AGENTS: Final = 8
"""Agents on one page."""


def board(campaign: Campaign, agent: str = "", first_row: int = 1, first_agent: int = 1) -> Board:
    """Return a page of the leaderboard as an agent sees it, or as anybody does without one.

    Rows from rank `first_row` on, as many as there is room for, and some agents from the one numbered
    `first_agent` on. Beyond the last there is nothing to show.
    """
    with campaign.journal.reading() as state:
        now = campaign.journal.now()
        if agent:
            standing_of(state, agent)
            step = next_step(state, agent, now, campaign.shown_workspace(agent))
        else:
            step = (
                "Watch it; `kernelarc-mcp agent add` lets an agent in and `kernelarc-mcp serve` is"
                " what it connects to."
            )
        calibration = campaign_calibration(state, now)
        changing: dict[str, object] = {"calibration": calibration, "next_step": step}
        # All that the hour may change beside the rows: no other, no other page.
        written = "" if calibration is None else calibration.model_dump_json()
        key = ("board", agent, first_row, first_agent, step, written)
        return campaign.memo.at(
            state.seq, key, lambda: _page(campaign, state, agent, first_row, first_agent, changing)
        )


def _page(
    campaign: Campaign,
    state: CampaignState,
    agent: str,
    first_row: int,
    first_agent: int,
    changing: dict[str, object],
) -> Board:
    memo, seq = campaign.memo, state.seq
    # What an agent has to do with: no row since then, no other answer.
    shared = memo.at(seq, "board", lambda: _shared(campaign, state))
    rows, in_all = memo.at(seq, ("board rows", first_row), lambda: _rows(state, first_row))
    agents = agents_in_order(state, agent)
    shown = agent_rows(state, agents, first_agent, AGENTS)
    names = {row.agent for row in shown} | {""}
    next_agent = first_agent + len(shown)
    page = shared.model_copy(
        update={
            "wealth": {name: left for name, left in state.wealth.items() if name in names},
            "agents": shown,
            "agents_in_all": len(agents),
            "next_agent": next_agent if next_agent <= len(agents) else None,
            "rows_in_all": in_all,
        }
        | changing
    )
    room = ROOM - len(page.model_dump_json())
    kept: list[BoardRow] = []
    for row, length in rows:
        room -= length
        if room < 0 and len(kept) >= FEWEST_ROWS:
            break
        kept.append(row)
    following = first_row + len(kept)
    return page.model_copy(
        update={"rows": kept, "next_row": following if following <= in_all else None}
    )


def _shared(campaign: Campaign, state: CampaignState) -> Board:
    """Return what all see alike, without its rows and agents."""
    return Board(
        problem=campaign.problem.definition.name,
        device=campaign.settings.device,
        quarantined=state.quarantined,
        calibration=None,
        canaries=canaries_view(state),
        wealth={},
        goal_percent=goal_now(state),
        record=record_view(state),
        suspect="" if state.suspect is None else state.suspect.reason,
        rows=[],
        rows_in_all=0,
        next_row=None,
        baselines=_baselines(state),
        other_models=other_models_in_short(state),
        agents=[],
        agents_in_all=0,
        next_agent=None,
        lenses=lens_credit(state),
        attempts_used=state.used,
        attempts=state.total,
        next_step="",
    )


def _rows(state: CampaignState, first: int) -> tuple[list[tuple[BoardRow, int]], int]:
    """Return rows with their lengths, and how many there are in all."""
    places = Places(state)
    rows = places.rows(first, MOST_ROWS)
    return [(row, len(row.model_dump_json()) + 1) for row in rows], len(places)


def _baselines(state: CampaignState) -> list[BaselineView]:
    seed = BaselineView(name=SEED, speedup=1.0, detail="The first record.")
    judged = [
        BaselineView(name=b.name, speedup=b.speedup, detail=b.detail) for b in state.baselines
    ]
    if state.campaign.reference is None:
        same = BaselineView(name="reference", speedup=1.0, detail="The seed is the reference.")
        judged.append(same)
    return [seed, *judged]
