"""The dispatcher: one process of a campaign claims what is queued, has it judged and settles it."""

import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Final

import anyio
from anyio.abc import TaskStatus

from kernelarc_guard.protocol import DEVICE_HELD, Compare, Progress, Result
from kernelarc_mcp.host.duties import Duties
from kernelarc_mcp.host.election import (
    LOCK,
    STOPPED_SECONDS,
    Seat,
    SeatJournal,
    SeatLost,
    machine_id,
)
from kernelarc_mcp.host.errors import StorageFault
from kernelarc_mcp.host.guard_client import (
    WAITING,
    GuardClient,
    GuardDied,
    GuardError,
    GuardNotStarted,
    GuardRefused,
    OnProgress,
)
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.judgement import BaselinePlan, Claim, Judge
from kernelarc_mcp.host.profile_work import ProfileWork
from kernelarc_mcp.host.replay import MAX_RESTARTS
from kernelarc_mcp.host.storage import LEAST_FREE, short_of_room, storage_faults

__all__ = ["CALIBRATION_SECONDS", "LOCK", "Dispatcher", "machine_id"]

CALIBRATION_SECONDS: Final = 6 * 3600.0
"""Deadline of a calibration: nurseries times pairs are the user's choice."""
CALIBRATION_TRIES: Final = 3
_PROGRESS_SECONDS: Final = 0.2
"""Signs of life are written no more often than this, for each costs a write to disk."""
_NOTE_SECONDS: Final = 1.0
"""The same for what is measured beside submissions, which wakes everybody who waits."""
_RETRY_SECONDS: Final = 15.0
_ELECTION_SECONDS: Final = 0.5

_LOG: Final = logging.getLogger(__name__)


class Dispatcher:
    """Runs in every server process of a campaign; the one that holds the seat does the work."""

    def __init__(
        self,
        host: Host,
        guard_python: str,
        *,
        poll_seconds: float = 0.1,
        retry_seconds: float = _RETRY_SECONDS,
        stopped_seconds: float = STOPPED_SECONDS,
        least_free: int = LEAST_FREE,
    ) -> None:
        self._host = host
        self._guard_python = guard_python
        self._poll = poll_seconds
        self._retry = retry_seconds
        self._least_free = least_free
        self._cache = str(host.folder / "cache")
        self._quarantine = ""
        """Why nothing is judged, as last said."""
        self._note = ""
        """What is said to everybody while nothing but submissions is measured."""
        self._seat = Seat(host.folder, stopped_seconds)
        journal = SeatJournal(host.campaign.journal, self._seat)
        campaign = replace(host.campaign, journal=journal)
        self._judge = Judge(campaign, machine_id(), os.getpid())
        self._duties = Duties(campaign, machine_id(), self._cache)
        self._profiles = ProfileWork(campaign, self._cache, machine_id(), self._deadline)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Wait to be elected, then judge until cancelled; who loses the seat stands again."""
        task_status.started()
        while True:
            while not self._try_take():
                await anyio.sleep(_ELECTION_SECONDS)
            _LOG.info("this process dispatches the campaign from now on")
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch_seat, group.cancel_scope)
                with suppress(SeatLost):
                    await self._elected(until_idle=False)
                group.cancel_scope.cancel()
            _LOG.warning("another process dispatches now: this one was stopped for a while")

    def _try_take(self) -> bool:
        with storage_faults(self._host.folder):
            return self._seat.try_take()

    async def _watch_seat(self, work: anyio.CancelScope) -> None:
        """End work that nobody would take any more; whatever is written is refused anyway."""
        while not self._seat.lost:
            await anyio.sleep(_ELECTION_SECONDS)
        work.cancel()

    async def run_until_idle(self) -> None:
        """Judge all that is queued and return; SeatTaken where another process is the dispatcher."""
        self._seat.take()
        await self._elected(until_idle=True)

    async def run_calibration(self, tell: OnProgress | None = None) -> None:
        """Do the calibration that is due and return; SeatTaken where another process dispatches."""
        self._seat.take()
        try:
            async with GuardClient(self._guard_python, self._host.folder / "guard.log") as guard:
                await self._calibrate(guard, tell)
        finally:
            self._leave()

    async def _elected(self, *, until_idle: bool) -> None:
        try:
            self._judge.recover()
            log = self._host.folder / "guard.log"
            async with GuardClient(self._guard_python, log) as guard:
                await self._recalibrate(guard)
                await self._until_done(self._judge_baselines, guard)
                await self._work(guard, until_idle)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Take back what was said of this process's work, and give the seat back."""
        try:
            with suppress(SeatLost):
                self._judge.note(self._note)
        finally:
            self._seat.release()

    async def _work(self, guard: GuardClient, until_idle: bool) -> None:
        while True:
            await self._do_duties(guard)
            # One profile, then one submission: neither waits for a queue of the other.
            profiled = await self._profiles.run_one(guard, self._noter)
            if profiled:
                self._judge.note(self._note)
            await self._wait_for_room()
            claim = self._judge.claim()
            if claim is not None:
                await self._judge_claim(guard, claim)
            elif profiled:
                continue
            elif until_idle:
                return
            else:
                await anyio.sleep(self._poll)

    async def _wait_for_room(self) -> None:
        """Judge nothing on a disk that is all but full, and say so where that can still be said."""
        said = False
        while why := short_of_room(self._host.folder, self._least_free):
            with suppress(StorageFault):
                self._judge.note(f"Nothing is judged: {why}.")
            if not said:
                _LOG.error("nothing is judged: %s", why)
            said = True
            await anyio.sleep(self._retry)
        if said:
            self._judge.note(self._note)

    async def _until_done(
        self, step: Callable[[GuardClient], Awaitable[None]], guard: GuardClient
    ) -> None:
        """Repeat a step of the campaign's start until the guard can do it; say why it cannot."""
        while True:
            try:
                await step(guard)
            except GuardError as error:
                self._judge.note(f"Nothing is judged: the guard {error}.")
                await anyio.sleep(self._retry)
            else:
                self._judge.note("")
                return

    async def _do_duties(self, guard: GuardClient) -> None:
        """Do what has to be done before the next submission may be judged."""
        await self._recalibrate(guard)
        suspect = self._duties.remeasurement()
        if suspect is not None:
            record, request = suspect
            what = f"The record {record} is being measured again"
            result, detail = await self._measured(guard, request, what)
            self._duties.remeasured(record, result, detail)
        unknown = self._duties.spread()
        if unknown is not None:
            record, request = unknown
            what = f"The new record {record} is being compared with itself, to see its noise"
            result, detail = await self._measured(guard, request, what)
            self._duties.spread_measured(record, result, detail)
        plan = self._duties.canary()
        if plan is not None:
            what = "The record is being compared with itself, to see whether the device is sound"
            result, detail = await self._measured(guard, plan.request, what)
            self._duties.canaried(plan, result, detail)
        why = self._duties.quarantine()
        if why != self._quarantine:
            self._quarantine = why
            said = f"device_quarantined: {why} `kernelarc-mcp calibrate DIR` releases it."
            self._note = said if why else ""
            self._judge.note(self._note)

    async def _recalibrate(self, guard: GuardClient) -> None:
        """Do the calibration that is due; drop one that was asked for after so many failures."""
        failures = 0
        while self._duties.calibration() is not None:
            try:
                await self._calibrate(guard)
            except GuardError as error:
                failures += 1
                why = f"The guard {error}."
                if failures >= CALIBRATION_TRIES and self._duties.drop_calibration(why):
                    self._judge.note(self._note)
                    return
                self._judge.note(f"Nothing is judged, a calibration failed: the guard {error}.")
                await anyio.sleep(self._retry)
            else:
                self._judge.note(self._note)

    async def _measured(
        self, guard: GuardClient, request: Compare, what: str
    ) -> tuple[Result | None, str]:
        """Return a comparison, or None and why the guard could not make it."""
        deaths = 0
        while True:
            try:
                result = await guard.judge(
                    request, deadline=self._deadline, on_progress=self._noter(what)
                )
            except GuardError as error:
                deaths += 1
                if deaths > MAX_RESTARTS:
                    self._judge.note(self._note)
                    return None, f"The guard {error}."
            else:
                self._judge.note(self._note)
                return result, result.detail

    async def _calibrate(self, guard: GuardClient, tell: OnProgress | None = None) -> None:
        request = self._duties.calibration()
        if request is None:
            return
        noted = self._noter("The device's noise is being measured first")

        def heard(progress: Progress) -> None:
            noted(progress)
            if tell is not None:
                tell(progress)

        result = await guard.judge(request, deadline=CALIBRATION_SECONDS, on_progress=heard)
        if result.calibration is None:
            raise GuardDied("returned no calibration")
        self._duties.calibrated(result)

    async def _judge_baselines(self, guard: GuardClient) -> None:
        while (plan := self._judge.baseline(self._cache)) is not None:
            await self._judge_baseline(guard, plan)

    async def _judge_baseline(self, guard: GuardClient, plan: BaselinePlan) -> None:
        noted = self._noter(f"{plan.subject} is being measured as a line to beat")
        deaths = 0
        while True:
            try:
                result = await guard.judge(plan.request, deadline=self._deadline, on_progress=noted)
            except GuardError as error:
                deaths += 1
                if deaths > MAX_RESTARTS:
                    # A line to beat is worth having, but no reason to judge nobody.
                    self._judge.baselined(plan, None, f"The guard {error}.")
                    return
            else:
                self._judge.baselined(plan, result, result.detail or plan.detail)
                return

    async def _judge_claim(self, guard: GuardClient, claim: Claim) -> None:
        try:
            await self._screen_and_confirm(guard, claim)
        except GuardNotStarted as error:
            await self._refused(claim, f"The guard {error}.")
        except GuardDied as error:
            self._judge.interrupted(claim, "guard_died", f"The guard died: {error}.")
        except GuardRefused as error:
            said = f"The guard refused: {error}."
            if error.code == "record_failed":
                self._judge.interrupted(claim, "record_failed", said)
            elif error.code == "builder_lost":
                self._judge.interrupted(claim, "builder_lost", said)
            else:
                await self._refused(claim, said)
        except anyio.get_cancelled_exc_class():
            with suppress(SeatLost):  # whoever took over has it in the queue already
                self._judge.interrupted(claim, "stopped", "The dispatcher was stopped.")
            raise

    async def _refused(self, claim: Claim, why: str) -> None:
        """Queue a submission again that the guard could not judge, and try again later."""
        self._judge.interrupted(claim, "guard_refused", why)
        self._judge.note(f"Nothing is judged: {why}")
        await anyio.sleep(self._retry)
        self._judge.note(self._note)

    async def _screen_and_confirm(self, guard: GuardClient, claim: Claim) -> None:
        request = self._judge.screen_request(claim, self._cache)
        screen = await guard.judge(
            request, deadline=self._deadline, on_progress=self._reporter(claim, 0)
        )
        _check_result(screen, "screen")
        if not self._judge.screened(claim, screen):
            return
        stake = self._judge.stake(claim)
        confirm = self._judge.confirm_request(claim, screen, stake, self._cache)
        result = await guard.judge(
            confirm, deadline=self._deadline, on_progress=self._reporter(claim, 1)
        )
        _check_result(result, "confirm")
        self._judge.confirmed(claim, result)

    @property
    def _deadline(self) -> float:
        return self._host.settings.judgement_seconds

    def _noter(self, what: str) -> OnProgress:
        """Say to everybody what is measured; return what adds the guard's signs of life to it."""
        self._judge.note(f"{what}.")
        last = 0.0

        def heard(progress: Progress) -> None:
            nonlocal last
            now = monotonic()
            held = progress.message in (WAITING, DEVICE_HELD)
            if held or now - last >= _NOTE_SECONDS:
                last = now
                with suppress(SeatLost):  # as below
                    self._judge.note(f"{what}: {progress.message}.")

        return heard

    def _reporter(self, claim: Claim, part: int) -> Callable[[Progress], None]:
        """Return what passes the guard's signs of life on, a few times a second."""
        last = 0.0
        stage = ""

        def report(progress: Progress) -> None:
            nonlocal last, stage
            now = monotonic()
            if progress.stage == stage and now - last < _PROGRESS_SECONDS:
                return
            last, stage = now, progress.stage
            with suppress(SeatLost):  # noticed when the answer is to be stored
                self._judge.progress(claim.ticket, progress, confirming=part == 1)

        return report


def _check_result(result: Result, op: str) -> None:
    """Treat an answer that does not fit its request as a guard that has lost its way."""
    if result.op != op:
        raise GuardDied(f"answered a {op} with a {result.op}")
    if op == "confirm" and result.verdict is None:
        raise GuardDied("confirmed without a verdict")
