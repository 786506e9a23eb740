"""The host as the server sees it: one object per process and campaign; knows nothing of MCP."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from kernelarc_guard.problem import Problem
from kernelarc_guard.solution import Solution
from kernelarc_mcp.host import (
    board,
    brief,
    campaign,
    conclusions,
    profiles,
    recording,
    snapshots,
    submit,
    tickets,
    tokens,
)
from kernelarc_mcp.host.journal import Clock, utc_now
from kernelarc_mcp.host.settings import CampaignSettings
from kernelarc_mcp.host.storage import storage_faults
from kernelarc_mcp.host.submit import Candidate, Ticket
from kernelarc_mcp.host.usage import Used
from kernelarc_mcp.profile_views import ProfileView
from kernelarc_mcp.views import (
    Board,
    Brief,
    ConclusionStored,
    LensView,
    MemoryView,
    Snapshot,
    SubmissionView,
)


class Host:
    """A campaign that is open in this process.

    Its methods are quick and may be called from several threads; what a caller did wrong raises a
    HostError whose message is for the model.
    """

    def __init__(self, opened: campaign.Campaign) -> None:
        self.campaign = opened
        self.stopping = False
        """Set when this process is about to end: who waits is answered as things stand."""
        self.held_up = ""
        """Why this process cannot judge, where its dispatcher ended with a fault; else empty."""

    @classmethod
    def create(
        cls, folder: Path, settings: CampaignSettings, problem: Problem, seed: Solution | None
    ) -> list[tuple[str, str]]:
        """Make a campaign's directory and return each agent's token, which is shown this once."""
        return campaign.create_campaign(folder, settings, problem, seed)

    @classmethod
    def open(cls, folder: Path, clock: Clock = utc_now, *, same_machine: bool = True) -> "Host":
        """Open a campaign; CampaignError where there is none or it cannot be used.

        Answers name no path of this machine where callers may be on another.
        """
        opened = campaign.open_campaign(folder, clock)
        return cls(replace(opened, same_machine=same_machine))

    @property
    def folder(self) -> Path:
        """Return the campaign's directory."""
        return self.campaign.folder

    @property
    def settings(self) -> CampaignSettings:
        """Return what the campaign was created with."""
        return self.campaign.settings

    @property
    def problem(self) -> Problem:
        """Return the campaign's problem."""
        return self.campaign.problem

    def close(self) -> None:
        """Close the ledger's connection."""
        self.campaign.close()

    def agents(self) -> list[str]:
        """Return the names of the campaign's agents."""
        with self.campaign.journal.reading() as state:
            return list(state.agents)

    def agent_for_token(self, token: str) -> str | None:
        """Return the agent a bearer token belongs to, or None."""
        with storage_faults(self.folder):
            return tokens.agent_for(self.campaign.journal.ledger.connection, token)

    def add_agent(self, agent: str, attempts: int = 0) -> str:
        """Return a new token for an agent and let it in where it is new."""
        return campaign.add_agent(self.campaign, agent, attempts)

    def revoke(self, agent: str) -> int:
        """Revoke every token of an agent and return how many there were."""
        return campaign.revoke_agent(self.campaign, agent)

    def holder_of_token(self, token: str) -> tokens.Holder | None:
        """Return whom a bearer token belongs to, in which role; None for a stranger."""
        return tokens.holder_of(self.campaign.journal.ledger.connection, token)

    def issue_token(self, name: str, role: tokens.Role) -> str:
        """Return a new token for a viewer or an admin."""
        return campaign.issue_token(self.campaign, name, role)

    def revoke_token(self, token_id: str) -> None:
        """Revoke one token by its id; BadRequest where none is valid."""
        campaign.revoke_token(self.campaign, token_id)

    def token_rows(self) -> list[tokens.TokenRow]:
        """Return every token that was issued, without what would let anybody use it."""
        return tokens.all_tokens(self.campaign.journal.ledger.connection)

    def valid_tokens(self, hashes: Iterable[str]) -> set[str]:
        """Return those of the hashes whose tokens are not revoked."""
        return tokens.still_valid(self.campaign.journal.ledger.connection, hashes)

    def register(self, agent: str) -> None:
        """Let an agent in and give it a lens; UnknownAgent for one that is not expected."""
        brief.register_agent(self.campaign, agent)

    def brief(self, agent: str, first_workload: int = 0) -> Brief:
        """Register the agent where it is new, and say everything it must know."""
        return brief.brief(self.campaign, agent, first_workload)

    def lens(self, agent: str, name: str = "") -> LensView:
        """Return the agent's lens, or another one that is eligible."""
        return brief.lens_view(self.campaign, agent, name)

    def memory(self, agent: str, limit: int = 16, kind: str = "", offset: int = 0) -> MemoryView:
        """Return the conclusions the retention shows, newest first, from number `offset` on."""
        return conclusions.read_memory(self.campaign, agent, limit, kind, offset)

    def submit(
        self,
        agent: str,
        *,
        source: str,
        filename: str = "",
        files: dict[str, str] | None = None,
        language: str = "",
        entry_point: str = "",
        destination_passing: bool = False,
        binding: str = "",
        cflags: Sequence[str] = (),
        cuda_cflags: Sequence[str] = (),
        ld_flags: Sequence[str] = (),
        summary: str = "",
        algorithm: str = "",
        dsl: str = "",
        layout: str = "",
        model: str = "",
        tokens: int | None = None,
        cost: float | None = None,
        request_id: str = "",
    ) -> Ticket:
        """Charge an attempt and queue it; return its ticket and whether it was charged now."""
        candidate = Candidate(
            source=source,
            filename=filename,
            files=dict(files or {}),
            language=language,
            entry_point=entry_point,
            # That binding has no way to return a tensor, so nobody can mean anything else.
            destination_passing=destination_passing or binding == "dlpack",
            binding=binding,
            cflags=list(cflags),
            cuda_cflags=list(cuda_cflags),
            ld_flags=list(ld_flags),
            summary=summary,
            algorithm=algorithm,
            dsl=dsl,
            layout=layout,
            model=model,
            tokens=tokens,
            cost=cost,
            request_id=request_id,
        )
        return submit.submit(self.campaign, agent, candidate)

    def submission(self, agent: str, ticket: str, *, charged: bool = True) -> SubmissionView:
        """Return a submission of the agent; `charged` is passed through to the answer."""
        return tickets.submission_view(self.campaign, agent, ticket, charged=charged)

    def cancel(self, agent: str, ticket: str) -> SubmissionView:
        """Reject a queued submission as cancelled; any other stays as it is, and says so."""
        return tickets.cancel(self.campaign, agent, ticket)

    def changed(self, ticket: str) -> int:
        """Return a number that grows whenever anything is about a submission, but its place in the queue."""
        with storage_faults(self.folder):
            return tickets.changed(self.campaign, ticket)

    def profile(self, agent: str, submission: str, workload: str = "") -> ProfileView:
        """Ask for a profile of an own submission, or return the one that is there."""
        return profiles.ask(self.campaign, agent, submission, workload)

    def profile_now(self, agent: str, submission: str, workload: str) -> ProfileView:
        """Return a profile that was asked for, as it stands now."""
        return profiles.look(self.campaign, agent, submission, workload)

    def conclude(
        self, agent: str, kind: str, summary: str, lesson: str, evidence: str
    ) -> ConclusionStored:
        """Store a win or a trap, proven by one of the agent's own submissions."""
        return conclusions.conclude(self.campaign, agent, kind, summary, lesson, evidence)

    def board(self, agent: str = "", first_row: int = 1, first_agent: int = 1) -> Board:
        """Return a page of the leaderboard as an agent sees it, or as anybody does without one."""
        return board.board(self.campaign, agent, first_row, first_agent)

    def record_usage(self, agent: str, used: Used) -> bool:
        """Store what a run of an agent's client used; False where that run was stored before."""
        return recording.record_usage(self.campaign, agent, used)

    def snapshot(
        self, agent: str, submission: str = "", path: str = "", offset: int = 0
    ) -> Snapshot:
        """Return a page of one file of a submission, where the agent may read it."""
        return snapshots.snapshot(self.campaign, agent, submission, path, offset)
