"""What the dispatcher owes besides judging: calibrations, canaries, records measured again."""

from dataclasses import dataclass
from typing import Literal

from kernelarc_guard import decide
from kernelarc_guard.canary import least_delay
from kernelarc_guard.decide import Calibration, Parameters
from kernelarc_guard.protocol import Calibrate, Compare, Result
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.events import (
    Calibrated,
    CalibrationAsked,
    CalibrationDropped,
    Canary,
    Quarantined,
    Remeasured,
    SpreadUpdated,
    read,
)
from kernelarc_mcp.host.restoring import restore_owed
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.host.submit import solution_of
from kernelarc_mcp.host.watching import (
    canary_due,
    p_value_of,
    planted_by,
    respread_by,
    respread_by_canary,
    spread_of,
    withdrawal,
)
from kernelarc_mcp.machine import describe_machine

CANARY_PAIRS = 14
SPREAD_PAIRS = 8
"""As many as a campaign's short calibration."""
REMEASURE_PAIRS = 14
_MOST_PLANTED = 100.0


@dataclass(frozen=True)
class CanaryPlan:
    """A canary that is due."""

    sort: Literal["same", "delayed"]
    record: str
    planted: float
    request: Compare


def delay_to_plant(parameters: Parameters, calibration: Calibration, stake: float) -> float:
    """Return the delay (percent) of a canary: the goal, or more where its pairs would not show that.

    0 where they would not show the largest one either: then a delay that is not seen says nothing.
    """
    least = least_delay(calibration, parameters, CANARY_PAIRS)
    if least > _MOST_PLANTED:
        return 0.0
    return min(max(decide.goal(parameters, calibration, stake), least), _MOST_PLANTED)


class Duties:
    """The ledger's side of them; each method is one transaction or a look."""

    def __init__(self, campaign: Campaign, machine: str, cache_dir: str) -> None:
        self._campaign = campaign
        self._machine = machine
        self._requests = campaign.requests(cache_dir)

    def ask_for_calibration(self, nurseries: int, pairs: int) -> None:
        """Have the noise measured again, by whichever process is the dispatcher."""
        with self._campaign.journal.writing() as writer:
            writer.append(CalibrationAsked(nurseries=nurseries, pairs=pairs))

    def calibration_seconds(self, pairs: int) -> float | None:
        """Return about how long that many pairs take, by the last calibration; None where there is none."""
        rows = self._campaign.journal.ledger.rows_of(["calibrated"])
        body = read(rows[-1]).body if rows else None
        if not isinstance(body, Calibrated) or body.result.lease is None:
            return None
        found, lease = body.result.calibration, body.result.lease
        if found is None or found.pairs == 0:
            return None
        return (lease.to_ns - lease.from_ns) / 1e9 * pairs / found.pairs

    def calibration(self) -> Calibrate | None:
        """Return the request of the calibration that is due, or None."""
        settings = self._campaign.settings
        with self._campaign.journal.reading() as state:
            asked = state.calibration_asked
            if state.calibration is not None and asked is None:
                return None
            nurseries = asked.nurseries if asked else settings.calibration_nurseries
            pairs = asked.pairs if asked else settings.schedule.calibration_pairs
            record = solution_of(self._campaign, state, state.record.ticket)
            return self._requests.calibrate("calibrate", record, nurseries=nurseries, pairs=pairs)

    def drop_calibration(self, detail: str) -> bool:
        """Forget a calibration that was asked for; False where the campaign has no other."""
        with self._campaign.journal.writing() as writer:
            state = writer.state
            if state.calibration_asked is None or state.calibration is None:
                return False
            writer.append(CalibrationDropped(detail=detail))
        return True

    def calibrated(self, result: Result) -> None:
        """Store a calibration; an unbiased one releases a quarantined device."""
        done = Calibrated(result=result, machine=self._machine, description=describe_machine())
        with self._campaign.journal.writing() as writer:
            writer.append(done)

    def quarantine(self) -> str:
        """Return why the device is quarantined, or an empty string."""
        with self._campaign.journal.reading() as state:
            return state.quarantined

    def remeasurement(self) -> tuple[str, Compare] | None:
        """Return the record that is suspect and the request that measures it against the seed."""
        with self._campaign.journal.reading() as state:
            suspect, calibration = state.suspect, state.calibration
            if suspect is None or calibration is None:
                return None
            request = self._requests.compare(
                f"remeasure-{suspect.record}",
                state.campaign.seed,
                solution_of(self._campaign, state, suspect.record),
                pairs=REMEASURE_PAIRS,
                blocks=calibration.blocks_confirm,
            )
            return suspect.record, request

    def remeasured(self, record: str, result: Result | None, detail: str) -> str:
        """Store what a suspect record measured; return why it is withdrawn, or nothing."""
        with self._campaign.journal.writing() as writer:
            before = {a.name: a.branch for a in writer.state.agents.values()}
            why = withdrawal(writer.state, record, result)
            writer.append(
                Remeasured(
                    record=record,
                    result=result,
                    withdrawn=why,
                    machine=self._machine,
                    detail=detail,
                )
            )
            for agent in writer.state.agents.values():
                if agent.branch != before[agent.name]:
                    writer.owe("workspace", agent.name)
        restore_owed(self._campaign)
        return why

    def spread(self) -> tuple[str, Compare] | None:
        """Return a record whose spread is not known and the request that compares it with itself."""
        with self._campaign.journal.reading() as state:
            record, calibration = state.spread_due, state.calibration
            if not record or calibration is None:
                return None
            return record, self._with_itself(
                f"spread-{record}", state, record, pairs=SPREAD_PAIRS, calibration=calibration
            )

    def spread_measured(self, record: str, result: Result | None, detail: str) -> None:
        """Store how a new record's pairs spread; a record that moved meanwhile is measured itself."""
        with self._campaign.journal.writing() as writer:
            if writer.state.spread_due != record:
                return
            found = respread_by(writer.state, result)
            writer.append(
                SpreadUpdated(
                    record=record,
                    result=result,
                    **dict(spread_of(found)),
                    machine=self._machine,
                    detail=detail,
                )
            )

    def canary(self) -> CanaryPlan | None:
        """Return the canary that is due: A/A and planted delays in turn, A/A alone where none is seen."""
        settings = self._campaign.settings
        with self._campaign.journal.reading() as state:
            calibration = state.calibration
            if calibration is None or not canary_due(state):
                return None
            record = state.record.ticket
            number = len(state.canaries)
            planted = 0.0
            if number % 2:
                planted = delay_to_plant(settings.parameters, calibration, state.least_stake)
            request = self._with_itself(
                f"canary-{number + 1}",
                state,
                record,
                pairs=CANARY_PAIRS,
                calibration=calibration,
                planted=planted,
            )
            return CanaryPlan("delayed" if planted else "same", record, planted, request)

    def canaried(self, plan: CanaryPlan, result: Result | None, detail: str) -> str:
        """Store a canary; quarantine the device where it completes an alarm, and return why.

        One of a record that moved meanwhile is dropped, for the law is that a canary is of the record that
        stands: it is still due, of the new one.
        """
        with self._campaign.journal.writing() as writer:
            if plan.record != writer.state.record.ticket or not canary_due(writer.state):
                return ""
            found = Canary(
                sort=plan.sort,
                record=plan.record,
                planted=planted_by(plan.planted, result),
                result=result,
                p_value=None,
                machine=self._machine,
                detail=detail,
            )
            again = respread_by_canary(writer.state, found)
            known = {
                "p_value": p_value_of(writer.state, found),
                "spread": None if again is None else spread_of(again),
            }
            writer.append(found.model_copy(update=known))
            why = writer.state.quarantine_due
            if why:
                writer.append(Quarantined(detail=f"{why}."))
        return why

    def _with_itself(
        self,
        id: str,
        state: CampaignState,
        record: str,
        *,
        pairs: int,
        calibration: Calibration,
        planted: float = 0.0,
    ) -> Compare:
        known = solution_of(self._campaign, state, record)
        other = known.model_copy(update={"name": f"candidate_{len(state.canaries) + 1}"})
        blocks = calibration.blocks_confirm
        return self._requests.compare(id, known, other, pairs=pairs, blocks=blocks, planted=planted)
