"""What came of one run, read from its campaign's ledger."""

from collections import Counter
from typing import Literal

from kernelarc_guard.model import Model
from kernelarc_mcp.experiments.folder import Run
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.errors import StorageFault
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.reporting.progress import progress

State = Literal["not begun", "partial", "finished"]


class Step(Model):
    """One record that still stands."""

    judged: int
    """Verdicts up to and with the one that made it the record."""
    digest: str
    """Of the solution."""
    speedup: float
    """Over the seed, as measured then."""


class Outcome(Model):
    """One run; scripts read this, so fields are only added."""

    arm: str
    run: int
    seed: int
    state: State
    """finished: every attempt was made and judged, or the clients had nothing left to try."""
    attempts: int
    """That it may make."""
    used: int
    judged: int
    speedup: float
    """Of the record over the seed, measured beside it; 1 without a record."""
    records: list[Step]
    verdicts: dict[str, int]
    drafts: int
    """Made because a plateau demanded them."""
    conclusions: int
    """Written to the memory."""
    lens_of_record: str
    algorithm_of_record: str
    device_seconds: float
    created_at: str
    device: str

    def best(self) -> list[float]:
        """Return the record's speedup after each verdict, the first place being the seed's own."""
        found = [1.0] * (self.judged + 1)
        for step in self.records:
            found[step.judged :] = [step.speedup] * (self.judged + 1 - step.judged)
        return found


def read_outcome(run: Run, *, ended: bool = False) -> Outcome:
    """Read a run as it stands.

    `ended`: its clients went home, so that a budget that is not spent counts as finished too; so does
    that of a run whose outcome was written.
    """
    if not run.campaign.is_dir():
        return _outcome(run, CampaignState(), "not begun")
    try:
        campaign = open_campaign(run.campaign)
    except StorageFault:
        campaign = open_campaign(run.campaign, read_only=True)
    try:
        with campaign.journal.reading() as state:
            spent = state.used >= state.total or ended or run.outcome.is_file()
            return _outcome(run, state, "finished" if spent and not state.unsettled else "partial")
    finally:
        campaign.close()


def _outcome(run: Run, state: CampaignState, stands: State) -> Outcome:
    known = state.created is not None
    points = [point.submission for point in progress(state)]
    record = state.record if known else None
    made = state.attempts.get(record.ticket) if record is not None else None
    done = [one for one in state.attempts.values() if one.state == "done"]
    return Outcome(
        arm=run.arm.name,
        run=run.number,
        seed=run.seed,
        state=stands,
        attempts=state.total if known else 0,
        used=state.used,
        judged=len(points),
        speedup=record.speedup if record is not None else 1.0,
        records=_steps(state, points),
        verdicts=dict(Counter(one.verdict for one in done if one.verdict)),
        drafts=sum(agent.drafts for agent in state.agents.values()),
        conclusions=len(state.concluded),
        lens_of_record=made.lens if made is not None else "",
        algorithm_of_record=made.proposal.algorithm if made is not None else "",
        device_seconds=state.device_ns / 1e9,
        created_at=state.created_at,
        device=state.calibration_machine,
    )


def _steps(state: CampaignState, settled: list[str]) -> list[Step]:
    """Return the records that stand, but the seed, at their places among the verdicts."""
    places = {ticket: number for number, ticket in enumerate(settled, start=1)}
    return [
        Step(
            judged=places[step.ticket],
            digest=state.attempts[step.ticket].solution_digest or "",
            speedup=step.speedup,
        )
        for step in state.records
        if not step.withdrawn and step.agent is not None
    ]
