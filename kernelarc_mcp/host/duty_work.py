"""The dispatcher's part of its duties: which is due, and having it measured. One runs at a time."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import anyio

from kernelarc_guard.protocol import Compare, Progress, Result
from kernelarc_mcp.host.duties import CanaryPlan, Duties
from kernelarc_mcp.host.guard_client import DeviceLost, GuardDied, GuardError, OnProgress
from kernelarc_mcp.host.judgement import BaselinePlan, Judge
from kernelarc_mcp.host.judging import Executor
from kernelarc_mcp.host.replay import MAX_RESTARTS
from kernelarc_mcp.host.telling import NOTABLE, Teller

_LOG: Final = logging.getLogger(__name__)
CALIBRATION_SECONDS: Final = 6 * 3600.0
"""Deadline of a calibration: nurseries times pairs are the user's choice."""
CALIBRATION_TRIES: Final = 3


@dataclass(frozen=True)
class Work:
    """Something for one lane."""

    run: Callable[[], Awaitable[None]]
    duty: bool = False
    """No other duty and no profile runs meanwhile."""
    alone: bool = False
    """Nothing else is measured meanwhile."""


class DutyWork:
    """Finds the duty that is due, and does it."""

    def __init__(
        self,
        duties: Duties,
        judge: Judge,
        executor: Executor,
        teller: Teller,
        cache_dir: str,
        *,
        deadline: float,
        retry: float,
    ) -> None:
        """`deadline` and `retry`, the wait after a failure, are in seconds."""
        self._duties = duties
        self._judge = judge
        self._executor = executor
        self._teller = teller
        self._cache = cache_dir
        self._deadline = deadline
        self._retry = retry

    def calibration_due(self) -> bool:
        """Say whether the device's noise has to be measured before anything else begins."""
        return self._duties.calibration() is not None

    def due(self) -> Work | None:
        """Return the duty that comes before the next submission, or None."""
        if self.calibration_due():
            return Work(self._recalibrate, duty=True, alone=True)
        if (line := self._judge.baseline(self._cache)) is not None:
            return Work(lambda: self._judge_baseline(line), duty=True)
        if (suspect := self._duties.remeasurement()) is not None:
            return Work(lambda: self._remeasure(*suspect), duty=True)
        if (unknown := self._duties.spread()) is not None:
            return Work(lambda: self._measure_spread(*unknown), duty=True)
        if (canary := self._duties.canary()) is not None:
            return Work(lambda: self._send_canary(canary), duty=True)
        return None

    def tell_quarantine(self) -> None:
        """Say to everybody that the device is quarantined, for as long as it is."""
        why = self._duties.quarantine()
        said = f"device_quarantined: {why} `kernelarc-mcp calibrate DIR` releases it."
        self._teller.usually(said if why else "")

    async def calibrate(self, tell: OnProgress | None = None) -> None:
        """Do the calibration that is due, once; GuardError where it fails."""
        request = self._duties.calibration()
        if request is None:
            return
        noted = self._teller.noter("The device's noise is being measured first")

        def heard(progress: Progress) -> None:
            noted(progress)
            if tell is not None:
                tell(progress)

        result = await self._executor.judge(
            request, deadline=CALIBRATION_SECONDS, on_progress=heard
        )
        if result.calibration is None:
            raise GuardDied("returned no calibration")
        self._duties.calibrated(result)
        noise = f"a pair's noise is {result.calibration.sd_confirm:.2g} %"
        why = self._duties.quarantine()
        ready = f"the device stays quarantined: {why}" if why else "ready to judge"
        _LOG.info("calibrated: %s; %s", noise, ready, extra=NOTABLE)

    async def _recalibrate(self) -> None:
        """Do the calibration that is due; drop one that was asked for after so many failures."""
        failures = 0
        told = ""
        while self.calibration_due():
            if not told:
                said = "calibrating: the device's noise is measured before anything"
                _LOG.info(said, extra=NOTABLE)
            try:
                await self.calibrate()
            except GuardError as error:
                failures += not isinstance(error, DeviceLost)
                why = error.words
                if failures >= CALIBRATION_TRIES and self._duties.drop_calibration(error.sentence):
                    said = "a calibration failed %d times and is given up, the last one stays: %s"
                    _LOG.warning(said, failures, why)
                    self._teller.all_is_well()
                    return
                if why != told:
                    said = "nothing is judged, a calibration failed: %s; tried again every %g s"
                    _LOG.warning(said, why, self._retry)
                    told = why
                self._teller.note(f"Nothing is judged, a calibration failed: {why}.")
                await anyio.sleep(self._retry)
            else:
                told = ""
                self._teller.all_is_well()

    async def _judge_baseline(self, plan: BaselinePlan) -> None:
        noted = self._teller.noter(f"{plan.subject} is being measured as a line to beat")
        deaths = 0
        while True:
            try:
                result = await self._executor.judge(
                    plan.request, deadline=self._deadline, on_progress=noted
                )
            except DeviceLost as error:
                await self._rest(error)
                return
            except GuardError as error:
                deaths += 1
                if deaths > MAX_RESTARTS:
                    # A line to beat is worth having, but no reason to judge nobody.
                    self._judge.baselined(plan, None, error.sentence)
                    break
            else:
                self._judge.baselined(plan, result, result.detail or plan.detail)
                break
        self._teller.all_is_well()

    async def _remeasure(self, record: str, request: Compare) -> None:
        what = f"The record {record} is being measured again"
        if (found := await self._measured(request, what)) is not None:
            if not self._duties.remeasured(record, *found):
                said = (
                    f"it could not be measured: {found[1]}"
                    if found[0] is None
                    else "nothing is amiss"
                )
                _LOG.info("the record %s stands: %s", record, said, extra=NOTABLE)

    async def _measure_spread(self, record: str, request: Compare) -> None:
        what = f"The new record {record} is being compared with itself, to see its noise"
        if (found := await self._measured(request, what)) is not None:
            self._duties.spread_measured(record, *found)

    async def _send_canary(self, plan: CanaryPlan) -> None:
        what = "The record is being compared with itself, to see whether the device is sound"
        if (found := await self._measured(plan.request, what)) is not None:
            self._duties.canaried(plan, *found)

    async def _measured(self, request: Compare, what: str) -> tuple[Result | None, str] | None:
        """Return a comparison, or None and why the guard could not make it.

        None alone where its device was lost: then it is still due.
        """
        noted = self._teller.noter(what)
        deaths = 0
        while True:
            try:
                result = await self._executor.judge(
                    request, deadline=self._deadline, on_progress=noted
                )
            except DeviceLost as error:
                await self._rest(error)
                return None
            except GuardError as error:
                deaths += 1
                if deaths > MAX_RESTARTS:
                    self._teller.all_is_well()
                    return None, error.sentence
            else:
                self._teller.all_is_well()
                return result, result.detail

    async def _rest(self, error: DeviceLost) -> None:
        self._teller.note(f"A measurement of the dispatcher's own is repeated: {error.words}.")
        await anyio.sleep(self._retry)
        self._teller.all_is_well()
