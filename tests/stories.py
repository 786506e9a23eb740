"""Campaigns without a disk for laws on the pure state: rows are sealed, read back and applied."""

import hashlib
import math
from datetime import UTC, datetime, timedelta

from host_places import make_problem, make_settings

from kernelarc_guard.decide import Decision
from kernelarc_guard.protocol import Lease, Result
from kernelarc_guard.ratios import Anchored, ratio_of
from kernelarc_guard.reasons import Stage, Verdict
from kernelarc_guard.solution import reference_solution
from kernelarc_mcp.host.budget import directive
from kernelarc_mcp.host.events import (
    Body,
    Confirmed,
    Created,
    Drafting,
    FileRef,
    Judging,
    Proposal,
    Registered,
    Screened,
    Settled,
    Staked,
    Submitted,
    read,
    seal,
)
from kernelarc_mcp.host.plateau import draft_lens, first_lens
from kernelarc_mcp.host.replay import apply
from kernelarc_mcp.host.settle import outcome
from kernelarc_mcp.host.state import CampaignState

LENSES = ["one", "two", "three"]
AGENTS = ["ada", "bob"]
Screening = tuple[Verdict | None, str | None, Stage]
SCREENS: dict[str, Screening] = {
    "broken": ("REJECT", "build_failed", "build"),
    "wrong": ("REVERT", "wrong_result", "correctness"),
    "slower": ("REVERT", "slower", "timing"),
    "close": ("ACCEPT", "close_to_record", "timing"),
    "promising": (None, None, "timing"),
}
CONFIRMATIONS: dict[str, tuple[Verdict, str]] = {
    "kept": ("KEEP", "confirmed"),
    "unproven": ("ACCEPT", "gain_not_confirmed"),
    "regressed": ("REVERT", "workload_regressed"),
}


def decision(kind: str, reason: str | None, percent: float) -> Decision:
    return Decision.model_validate(
        {
            "outcome": kind,
            "reason": reason,
            "speedup": math.exp(percent / 100),
            "lower": None,
            "mean_percent": percent,
            "lower_percent": None,
            "pairs": 7,
            "blocks": 7,
            "look": 1,
            "stake": 0.001,
            "goal": 1.0,
            "delta": 0.3,
            "band": 2.0,
            "resolution": 1.0,
            "detail": "",
        }
    )


def screen_result(name: str) -> Result:
    verdict, reason, stage = SCREENS[name]
    measured = stage == "timing"
    return Result(
        id="x",
        op="screen",
        verdict=verdict,
        reason=reason,
        stage=stage,
        decision=decision(verdict or "promising", reason, 0.0) if measured else None,
    )


def confirm_result(name: str) -> Result:
    verdict, reason = CONFIRMATIONS[name]
    return Result(
        id="x",
        op="confirm",
        verdict=verdict,
        reason=reason,
        stage="timing",
        decision=decision(verdict, reason, 5.0),
        anchored=Anchored(record=None, candidate=ratio_of([4.9, 5.1])),
    )


class Story:
    """A campaign without a disk: rows are sealed, read back and applied."""

    def __init__(self, **changes: object) -> None:
        self.state = CampaignState()
        self.rows: list[tuple[Body, str, str]] = []
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        problem = make_problem()
        seed = reference_solution(problem.definition)
        self.add(
            Created(
                settings=make_settings(lenses=LENSES, r_draft=3, attempts=24, **changes),
                problem=problem,
                problem_digest=problem.digest,
                operator_class="elementwise",
                seed=seed,
                seed_digest=seed.digest,
                seed_dsl="torch",
                reference=None,
            )
        )
        for agent in AGENTS:
            self.add(Registered(lens=first_lens(self.state)), agent)

    def add(self, body: Body, agent: str = "", submission: str = "") -> None:
        self.now += timedelta(seconds=1)
        at = self.now.isoformat()
        row = seal(self.state.seq + 1, at, agent, submission, body, self.state.head)
        apply(self.state, read(row))
        self.rows.append((body, agent, submission))

    def submit(self, agent: str) -> str:
        number = self.state.used + 1
        standing = self.state.agents[agent]
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        self.add(
            Submitted(
                number=number,
                request_id="",
                proposal=Proposal(
                    language="python",
                    entry_point="k.py::run",
                    destination_passing=False,
                    binding="",
                    files=[FileRef(path="k.py", digest=digest, size=1)],
                ),
                lens=standing.lens,
                episode=standing.episode if standing.drafting else 0,
                key=digest,
                found_dsl="torch",
                solution_digest=digest,
            ),
            agent,
            f"s{number:03d}",
        )
        return f"s{number:03d}"

    def claim(self) -> str:
        ticket = self.state.next_queued()
        agent = self.state.attempts[ticket].agent
        stake = self.state.stake_of(agent)
        against = self.state.record.ticket
        self.add(Judging(against=against, stake=stake, machine="m", process=1), agent, ticket)
        return ticket

    def settle(self, ticket: str, body: Settled) -> None:
        agent = self.state.attempts[ticket].agent
        self.add(body, agent, ticket)
        if self.state.draft_due:
            standing = self.state.agents[agent]
            lens = draft_lens(self.state, standing)
            self.add(Drafting(episode=standing.episode + 1, lens=lens), agent)

    def judge(
        self, ticket: str, screen: str, confirmation: str = "kept", lease: Lease | None = None
    ) -> None:
        agent = self.state.attempts[ticket].agent
        held = {"lease": lease}
        screened = screen_result(screen).model_copy(update=held)
        self.add(Screened(result=screened), agent, ticket)
        if screen == "promising":
            amount = self.state.stake_of(agent)
            left = self.state.wealth[self.state.share_of(agent)] - amount
            self.add(Staked(amount=amount, wealth=left), agent, ticket)
            confirmed = confirm_result(confirmation).model_copy(update=held)
            self.add(Confirmed(result=confirmed), agent, ticket)
        self.settle(ticket, outcome(self.state, self.state.attempts[ticket]))

    def forget(self) -> None:
        """Go back to the rows, after one that was refused."""
        rows, self.rows, self.state = self.rows, [], CampaignState()
        for body, agent, submission in rows:
            self.add(body, agent, submission)

    def directive(self, agent: str) -> str:
        return directive(self.state, agent, self.now.isoformat())
