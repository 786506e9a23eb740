"""The candidates of a campaign that a guard judged, with the sources they were judged with."""

from dataclasses import dataclass

from kernelarc_guard.judgement import merged_workloads
from kernelarc_guard.protocol import Result, WorkloadReport
from kernelarc_guard.ratios import Ratio
from kernelarc_guard.reasons import Stage
from kernelarc_guard.solution import Solution
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import BadRequest
from kernelarc_mcp.host.events import SEED
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.host.submit import solution_of


@dataclass(frozen=True)
class Judged:
    """One candidate with its verdict; the seed has none."""

    ticket: str
    agent: str
    number: int
    """Of all attempts in the campaign; 0 for the seed."""
    settled_at: str
    """ISO 8601 with an offset."""
    solution: Solution
    parent: str
    """What its author stood on: the agent's branch when it was submitted; empty for the seed."""
    against: str
    """The record it was compared with; empty for the seed."""
    verdict: str
    reason: str
    stage: Stage | None
    detail: str
    speedup: float | None
    """Over the record it was compared with."""
    lower: float | None
    over_seed: Ratio | None
    """Measured beside it, where it was confirmed."""
    withdrawn: str
    """Reason code of a record that fell; else empty."""
    lens: str
    draft: bool
    summary: str
    algorithm: str
    layout: str
    model: str
    workloads: list[WorkloadReport]

    @property
    def kept(self) -> bool:
        """Say whether it was a record, withdrawn or not."""
        return self.verdict == "KEEP"


@dataclass(frozen=True)
class Candidates:
    """What is taken out of a campaign."""

    campaign: str
    device: str
    machine: str
    """What the calibration was measured on, in words; empty without one."""
    created_at: str
    judged: dict[str, Judged]
    """By ticket, the seed first, then in the order of their verdicts."""
    records: list[str]
    """Tickets of the records that stand, the seed first."""
    branches: dict[str, str]
    """Agent -> the ticket its branch is at."""

    @property
    def record(self) -> Judged:
        """Return the record."""
        return self.judged[self.records[-1]]

    def named(self, name: str) -> Judged:
        """Return a candidate by ticket, `seed` or `record` (also for an empty name).

        BadRequest where there is none or no guard judged it.
        """
        if name in ("", "record"):
            return self.record
        if name not in self.judged:
            raise BadRequest(
                f"there is no judged submission {name[:40]!r} in this campaign; name one of its"
                " tickets, `seed` or `record`"
            )
        return self.judged[name]


def candidates(campaign: Campaign) -> Candidates:
    """Read the seed and every candidate that has a verdict of the guard."""
    with campaign.journal.reading() as state:
        found = [_of_attempt(campaign, state, one) for one in _settled(state)]
        judged = {SEED: _seed(state)} | {one.ticket: one for one in found}
        return Candidates(
            campaign=state.campaign.settings.name,
            device=state.campaign.settings.device,
            machine=state.calibration_machine,
            created_at=state.created_at,
            judged=judged,
            records=[step.ticket for step in state.records if not step.withdrawn],
            branches={agent.name: agent.branch for agent in state.agents.values()},
        )


def _settled(state: CampaignState) -> list[Attempt]:
    judged = [a for a in state.attempts.values() if a.state == "done" and _result(a) is not None]
    return sorted(judged, key=lambda attempt: attempt.settled_seq)


def _result(attempt: Attempt) -> Result | None:
    return attempt.confirmation or attempt.screen


def _of_attempt(campaign: Campaign, state: CampaignState, attempt: Attempt) -> Judged:
    solution = solution_of(campaign, state, attempt.ticket)
    anchored = attempt.confirmation.anchored if attempt.confirmation is not None else None
    proposal, step = attempt.proposal, state.step_of(attempt.ticket)
    return Judged(
        ticket=attempt.ticket,
        agent=attempt.agent,
        number=attempt.number,
        settled_at=attempt.settled_at,
        solution=solution,
        parent=attempt.parent,
        against=attempt.against,
        verdict=attempt.verdict or "",
        reason=attempt.reason or "",
        stage=attempt.stage,
        detail=attempt.detail,
        speedup=attempt.speedup,
        lower=attempt.lower,
        over_seed=None if anchored is None else anchored.candidate,
        withdrawn="" if step is None else step.withdrawn,
        lens=attempt.lens,
        draft=attempt.episode > 0,
        summary=proposal.summary,
        algorithm=proposal.algorithm,
        layout=proposal.layout,
        model=proposal.model,
        # A confirmation times; what the errors were only the screen says.
        workloads=merged_workloads([one for one in (attempt.screen, attempt.confirmation) if one]),
    )


def _seed(state: CampaignState) -> Judged:
    created = state.campaign
    return Judged(
        ticket=SEED,
        agent="",
        number=0,
        settled_at=state.created_at,
        solution=created.seed,
        parent="",
        against="",
        verdict="",
        reason="",
        stage=None,
        detail="The first record of the campaign.",
        speedup=None,
        lower=None,
        over_seed=None,
        withdrawn="",
        lens="",
        draft=False,
        summary="The first record",
        algorithm="",
        layout="",
        model="",
        workloads=[],
    )


def renamed(solution: Solution, candidate: Judged) -> Solution:
    """Return a solution with its ticket as name and its agent as author."""
    return Solution.model_validate(
        solution.model_dump() | {"name": candidate.ticket, "author": candidate.agent or "seed"}
    )
