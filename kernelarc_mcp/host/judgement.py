"""The dispatcher's transactions: claim, screened, staked, confirmed, settled, interrupted."""

from dataclasses import dataclass
from typing import Final, Literal

from kernelarc_guard.decide import Calibration
from kernelarc_guard.protocol import Confirm, Progress, Result, Screen
from kernelarc_guard.reasons import STAGES
from kernelarc_guard.solution import Solution
from kernelarc_mcp.host.baselines import REFERENCE, line_detail, lines_to_beat
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.events import (
    SEED,
    Baselined,
    Confirmed,
    Interrupted,
    Judging,
    Screened,
    Staked,
    Suspected,
)
from kernelarc_mcp.host.journal import Writer
from kernelarc_mcp.host.judgement_rows import MAX_RESTARTS, counts_as_death, has_to_repeat
from kernelarc_mcp.host.restoring import restore_owed
from kernelarc_mcp.host.settle import append_settled, guard_lost, outcome
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.host.submit import solution_of
from kernelarc_mcp.host.tickets import FLEET
from kernelarc_mcp.host.watching import drifted

MESSAGE: Final = 400
"""Characters of a message beside a submission."""
Cut = Literal[
    "guard_died",
    "guard_refused",
    "record_failed",
    "builder_lost",
    "device_lost",
    "dispatcher_lost",
    "stopped",
]


@dataclass(frozen=True)
class Claim:
    """A submission that is being judged, with all the guard has to know."""

    ticket: str
    agent: str
    against: str
    record: Solution
    candidate: Solution
    anchor: Solution | None
    """The seed, to be measured along in a confirmation; None where it is the record."""
    calibration: Calibration | None
    stake: float
    known_binaries: dict[str, str]


@dataclass(frozen=True)
class BaselinePlan:
    """A known solution that is to be judged as a line to beat."""

    name: str
    asked_after: int
    """Row that the request is made on; agents may join while the guard is at it."""
    request: Screen
    detail: str
    """What it is, in one sentence or two."""

    @property
    def subject(self) -> str:
        """Return what it is called at the beginning of a sentence."""
        return "The reference" if self.name == REFERENCE else self.name


def _short(message: str) -> str:
    """Return a message as it is shown, with a mark where it was cut."""
    return message if len(message) <= MESSAGE else message[: MESSAGE - 6] + " [...]"


def _claimable(state: CampaignState) -> str:
    """Return the submission that may be claimed now; empty where none may."""
    doubted = state.quarantined or state.suspect is not None
    return "" if doubted else state.next_queued()


class Judge:
    """The ledger's side of judging; each method is one transaction."""

    def __init__(self, campaign: Campaign, machine: str, process: int) -> None:
        self.campaign = campaign
        self._machine = machine
        self._process = process

    def recover(self) -> list[str]:
        """Queue again what a dispatcher that is gone left unfinished; return the tickets.

        Workspaces that it still had to put back are put back.
        """
        with self.campaign.journal.writing() as writer:
            left = writer.state.judging()
            for attempt in left:
                cut = Interrupted(cause="dispatcher_lost", detail="The dispatcher's process ended.")
                writer.append(cut, attempt.agent, attempt.ticket)
            self._forget_progress(FLEET)
        restore_owed(self.campaign)
        return [attempt.ticket for attempt in left]

    def claim(self) -> Claim | None:
        """Take the next queued submission, or return None where nothing may be judged now."""
        with self.campaign.journal.reading() as state:
            if not _claimable(state):
                return None
        with self.campaign.journal.writing() as writer:
            state = writer.state
            following = _claimable(state)
            if not following:
                return None
            attempt = state.attempts[following]
            judging = Judging(
                against=state.record.ticket,
                stake=state.stake_of(attempt.agent),
                machine=self._machine,
                process=self._process,
            )
            writer.append(judging, attempt.agent, attempt.ticket)
            self._forget_progress(attempt.ticket)
            return Claim(
                ticket=attempt.ticket,
                agent=attempt.agent,
                against=judging.against,
                record=solution_of(self.campaign, state, judging.against),
                candidate=solution_of(self.campaign, state, attempt.ticket),
                anchor=None if judging.against == SEED else state.campaign.seed,
                calibration=state.calibration,
                stake=judging.stake,
                known_binaries=dict(state.binaries),
            )

    def screened(self, claim: Claim, result: Result) -> bool:
        """Store the screen; settle it, or return True where it has to be confirmed."""
        with self.campaign.journal.writing() as writer:
            writer.append(Screened(result=result), claim.agent, claim.ticket)
            if result.verdict is None:
                return True
            self._settle(writer, claim.ticket)
        restore_owed(self.campaign)
        return False

    def stake(self, claim: Claim) -> float | None:
        """Reserve the stake of a confirmation before its first pair; return the amount.

        None, and the submission is queued again, where nothing is staked against this record now.
        """
        with self.campaign.journal.writing() as writer:
            state = writer.state
            if self._repeated(writer, claim):
                return None
            amount = state.stake_of(claim.agent)
            left = state.wealth[state.share_of(claim.agent)] - amount
            writer.append(Staked(amount=amount, wealth=left), claim.agent, claim.ticket)
        return amount

    def confirmed(self, claim: Claim, result: Result) -> None:
        """Store the confirmation and settle it; a KEEP that does not count any more is queued again."""
        with self.campaign.journal.writing() as writer:
            state = writer.state
            drift = drifted(state, state.attempts[claim.ticket], result)
            writer.append(Confirmed(result=result), claim.agent, claim.ticket)
            if state.drift_due:
                suspected = Suspected(record=claim.against, reason="record_drifted", detail=drift)
                writer.append(suspected)
            if result.verdict == "KEEP" and self._repeated(writer, claim):
                return
            self._settle(writer, claim.ticket)
        restore_owed(self.campaign)

    def interrupted(self, claim: Claim, cause: Cut, detail: str) -> None:
        """Queue a cut-off judgement again; a death after two restarts is a lost guard: REVERT.

        A record that failed is suspected, by the first of several judgements against it: it may have been
        the candidate's doing, so it is measured again without one. The seed is never suspect.
        """
        with self.campaign.journal.writing() as writer:
            attempt = writer.state.attempts[claim.ticket]
            stands = claim.against == writer.state.record.ticket and writer.state.suspect is None
            if cause == "record_failed" and stands and claim.against != SEED:
                suspected = Suspected(record=claim.against, reason="record_failed", detail=detail)
                writer.append(suspected)
            if counts_as_death(attempt, cause) and attempt.deaths >= MAX_RESTARTS:
                append_settled(writer, attempt, guard_lost(attempt, detail))
            else:
                cut = Interrupted(cause=cause, detail=detail)
                writer.append(cut, claim.agent, claim.ticket)
        restore_owed(self.campaign)

    def baselined(self, plan: BaselinePlan, result: Result | None, detail: str) -> None:
        """Store what a known solution was judged like."""
        with self.campaign.journal.writing() as writer:
            if plan.name not in writer.state.baselined:
                done = Baselined(
                    name=plan.name,
                    result=result,
                    detail=detail,
                    machine=self._machine,
                    asked_after=plan.asked_after,
                )
                writer.append(done)

    def progress(self, ticket: str, progress: Progress, *, confirming: bool = False) -> None:
        """Show a sign of life to every process; no part of the ledger."""
        part = min(1.0, max(0.0, progress.done / progress.of)) if progress.of > 0 else 0.0
        # Most of the time is timing, first in the screen and then in the confirmation.
        low = 8 * STAGES.index(progress.stage)
        width = 22 if progress.stage == "timing" else 8
        low, width = (70, 29) if confirming else (low, width)
        message = f"Confirming: {progress.message}" if confirming else progress.message
        self._write_progress(ticket, progress.stage, round(low + width * part), message)

    def note(self, message: str) -> None:
        """Say to everybody why nothing is judged at the moment; empty: all is well."""
        self._write_progress("", None, 0, message)

    def fleet(self, words: str) -> None:
        """Say to whoever asks what the fleet has; nobody who waits is woken by it. Empty: there is none."""
        self._write_progress(FLEET, None, 0, words)

    def baseline(self, cache_dir: str) -> BaselinePlan | None:
        """Return how the next line to beat is judged, or None where all were."""
        with self.campaign.journal.reading() as state:
            for name, solution in lines_to_beat(state.campaign).items():
                if name not in state.baselined:
                    request = self.campaign.requests(cache_dir).screen(
                        f"baseline-{name}",
                        state.campaign.seed,
                        solution,
                        calibration=state.calibration,
                        stake=state.least_stake,
                    )
                    detail = line_detail(state.campaign, name)
                    return BaselinePlan(name, state.seq, request, detail)
            return None

    def screen_request(self, claim: Claim, cache_dir: str) -> Screen:
        """Return the request for a claim's screen."""
        return self.campaign.requests(cache_dir).screen(
            f"{claim.ticket}-screen",
            claim.record,
            claim.candidate,
            calibration=claim.calibration,
            stake=claim.stake,
            known_binaries=claim.known_binaries,
        )

    def confirm_request(
        self, claim: Claim, screen: Result, stake: float, cache_dir: str
    ) -> Confirm:
        """Return the request for a claim's confirmation."""
        calibration = claim.calibration or screen.calibration
        if calibration is None:
            raise ValueError("a promising screen comes with its calibration")
        return self.campaign.requests(cache_dir).confirm(
            f"{claim.ticket}-confirm",
            claim.record,
            claim.candidate,
            anchor=claim.anchor,
            calibration=calibration,
            stake=stake,
        )

    def _repeated(self, writer: Writer, claim: Claim) -> bool:
        """Queue a submission again where what it won does not count now; say whether."""
        state = writer.state
        cause = has_to_repeat(state, state.attempts[claim.ticket])
        if cause is None:
            return False
        said = {
            "record_moved": f"the record is {state.record.ticket} now",
            "device_quarantined": f"the device is quarantined: {state.quarantined}",
        }
        doubted = "" if state.suspect is None else state.suspect.detail
        detail = f"It won against {claim.against}, but {said.get(cause, doubted)}"
        writer.append(Interrupted(cause=cause, detail=detail), claim.agent, claim.ticket)
        return True

    def _settle(self, writer: Writer, ticket: str) -> None:
        attempt: Attempt = writer.state.attempts[ticket]
        append_settled(writer, attempt, outcome(writer.state, attempt))

    def _forget_progress(self, ticket: str) -> None:
        self.campaign.journal.ledger.connection.execute(
            "UPDATE progress SET stage = NULL, percent = 0, message = '', revision = revision + 1"
            " WHERE ticket = ?",
            [ticket],
        )

    def _write_progress(self, ticket: str, stage: str | None, percent: int, message: str) -> None:
        with self.campaign.journal.alone() as connection:
            connection.execute(
                "INSERT INTO progress (ticket, stage, percent, message, revision)"
                " VALUES (?, ?, ?, ?, 1) ON CONFLICT (ticket) DO UPDATE SET"
                " stage = excluded.stage, percent = max(percent, excluded.percent),"
                " message = excluded.message, revision = revision + 1",
                [ticket, stage, percent, _short(message)],
            )
