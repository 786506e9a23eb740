"""The tools that read the campaign, and the one that writes what was learned."""

from typing import Annotated, Literal

from pydantic import Field

from kernelarc_mcp.room import snapshot_within
from kernelarc_mcp.tools.desk import Desk
from kernelarc_mcp.tools.parameters import Kind, Offset
from kernelarc_mcp.views import (
    Board,
    Brief,
    ConclusionStored,
    LensView,
    MemoryView,
    Snapshot,
)


class ReadingTools:
    """Tools that never charge an attempt."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def get_brief(
        self,
        first_workload: Annotated[
            int,
            Field(
                ge=0,
                le=1_000_000,
                description="Show workloads from this number on; see next_workload.",
            ),
        ] = 0,
    ) -> Brief:
        """Call this first. Registers you with the campaign and returns all you must know: the
        operator's interface and reference code, its workloads with the record's times and
        tolerances, languages, how `run` is called and compiled, what a right answer is, what is
        not allowed, time limits, your lens, branch, attempts left, directive, the rules and what
        there is to read. Costs nothing; call it again whenever you lost track."""
        return self._desk.host.brief(self._desk.caller(), first_workload)

    async def get_strategy_lens(
        self,
        name: Annotated[
            str, Field(max_length=100, description="A lens from `eligible`; empty: your own.")
        ] = "",
    ) -> LensView:
        """Return a strategy lens: its intent, when it pays, when it is a trap, a ladder of moves
        with what to see before each, notes on the hardware, and templates (resources to read). Your
        own lens is assigned by the server and changes only when a draft is forced; reading another
        one does not change yours. A lens is where to look first, not a limit on what you may do."""
        return self._desk.host.lens(self._desk.reader(), name)

    async def read_memory(
        self,
        limit: Annotated[
            int, Field(ge=1, le=200, description="At most so many; `retention` may allow fewer.")
        ] = 16,
        kind: Annotated[
            Literal["", "win", "trap"], Field(description="`win` or `trap`; empty: both.")
        ] = "",
        offset: Annotated[Offset, Field(description="Go on from there; see next_offset.")] = 0,
    ) -> MemoryView:
        """Return the wins and traps that agents recorded, newest useful first, each with the
        submission that proves it and what was measured. Read it before your first candidate: skip
        what a trap rules out, start from what won."""
        return self._desk.host.memory(self._desk.reader(), limit, kind, offset)

    async def write_conclusion(
        self,
        kind: Annotated[
            Kind, Field(description="`win` (what made it fast) or `trap` (what failed).")
        ],
        summary: Annotated[
            str, Field(max_length=20_000, description="One line, at most 160 characters.")
        ],
        lesson: Annotated[
            str,
            Field(
                max_length=20_000,
                description="What to do or avoid and why, at most 1200 characters.",
            ),
        ],
        evidence: Annotated[
            str,
            Field(
                min_length=1,
                max_length=100,
                description="Ticket of a judged submission of yours: KEEP or ACCEPT for a win, "
                "REJECT or REVERT for a trap.",
            ),
        ],
    ) -> ConclusionStored:
        """Record what one of your submissions proved, for every agent of the campaign. The
        measured facts are stored beside your words by the server. Too long a text is refused
        whole, nothing is cut."""
        stored = self._desk.host.conclude(self._desk.caller(), kind, summary, lesson, evidence)
        await self._desk.notify()
        return stored

    async def view_leaderboard(
        self,
        first_row: Annotated[
            int,
            Field(ge=1, le=10_000_000, description="Rank of the first row shown; see next_row."),
        ] = 1,
        first_agent: Annotated[
            int,
            Field(ge=1, le=10_000_000, description="First agent shown; see next_agent."),
        ] = 1,
    ) -> Board:
        """Return the board: the record, the ranked submissions with confirmed gains over the
        seed, the baselines to beat, the agents' standings, and what each lens brought so far."""
        return self._desk.host.board(self._desk.reader(), first_row, first_agent)

    async def view_snapshot(
        self,
        submission: Annotated[
            str,
            Field(
                max_length=100,
                description="A ticket, `seed`, `record` or `branch`; empty: your branch.",
            ),
        ] = "",
        path: Annotated[
            str, Field(max_length=240, description="One of its files; empty: the entry file.")
        ] = "",
        offset: Annotated[Offset, Field(description="First character to return.")] = 0,
    ) -> Snapshot:
        """Page through the source of a submission. Your own submissions and your branch are
        always open to you; when those of others are, the brief's rules say."""
        page = self._desk.host.snapshot(self._desk.reader(), submission, path, offset)
        return snapshot_within(page)
