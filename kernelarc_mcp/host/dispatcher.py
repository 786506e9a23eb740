"""The dispatcher: one process of a campaign claims what is queued, has it judged and settles it."""

import logging
import os
from contextlib import suppress
from dataclasses import replace
from typing import Final

import anyio
from anyio.abc import TaskStatus

from kernelarc_mcp.host.ahead import Ahead
from kernelarc_mcp.host.duties import Duties
from kernelarc_mcp.host.duty_work import CALIBRATION_SECONDS, DutyWork
from kernelarc_mcp.host.election import (
    LOCK,
    STOPPED_SECONDS,
    Seat,
    SeatJournal,
    SeatLost,
    machine_id,
)
from kernelarc_mcp.host.extra_work import ExtraWork
from kernelarc_mcp.host.guard_client import OnProgress
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.judgement import Judge
from kernelarc_mcp.host.judging import Executor, LocalExecutor
from kernelarc_mcp.host.lane import Lane
from kernelarc_mcp.host.lanes import Lanes
from kernelarc_mcp.host.profile_work import ProfileWork
from kernelarc_mcp.host.storage import LEAST_FREE, storage_faults
from kernelarc_mcp.host.telling import Teller

__all__ = ["CALIBRATION_SECONDS", "LOCK", "Dispatcher", "machine_id"]

_RETRY_SECONDS: Final = 15.0
_ELECTION_SECONDS: Final = 0.5

_LOG: Final = logging.getLogger(__name__)


class Dispatcher:
    """Runs in every server process of a campaign; the one that holds the seat does the work."""

    def __init__(
        self,
        host: Host,
        executor: Executor | str,
        *,
        poll_seconds: float = 0.1,
        retry_seconds: float = _RETRY_SECONDS,
        stopped_seconds: float = STOPPED_SECONDS,
        least_free: int = LEAST_FREE,
    ) -> None:
        """`executor` judges; a guard's interpreter stands for one guard of this machine."""
        if isinstance(executor, str):
            executor = LocalExecutor(executor, host.folder / "guard.log")
        self._host = host
        self._executor = executor
        self._poll = poll_seconds
        self._retry = retry_seconds
        self._least_free = least_free
        self._seat = Seat(host.folder, stopped_seconds)
        journal = SeatJournal(host.campaign.journal, self._seat)
        campaign = replace(host.campaign, journal=journal)
        cache, machine = str(host.folder / "cache"), machine_id()
        self._ahead = Ahead(campaign, cache)
        self._judge = Judge(campaign, machine, os.getpid())
        self._teller = Teller(self._judge)
        times = {"deadline": host.settings.judgement_seconds, "retry": retry_seconds}
        self._duties = DutyWork(
            Duties(campaign, machine, cache), self._judge, executor, self._teller, cache, **times
        )
        self._lane = Lane(self._judge, executor, self._teller, cache, **times)
        self._profiles = ProfileWork(campaign, executor, cache, machine, **times)
        self._extras = ExtraWork(campaign, executor, cache, machine, poll=poll_seconds, **times)

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
            async with self._executor as executor:
                await executor.wait_lanes(0)
                await self._duties.calibrate(tell)
        finally:
            self._leave()

    async def _elected(self, *, until_idle: bool) -> None:
        try:
            self._judge.recover()
            lanes = Lanes(
                self._executor,
                self._judge,
                self._lane,
                self._duties,
                self._profiles,
                self._extras,
                self._teller,
                folder=self._host.folder,
                least_free=self._least_free,
                poll=self._poll,
                retry=self._retry,
            )
            async with self._executor, self._ahead.beside(self._executor):
                await lanes.run(until_idle=until_idle)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Take back what was said of this process's work, and give the seat back."""
        try:
            self._teller.leave()
        finally:
            self._seat.release()
