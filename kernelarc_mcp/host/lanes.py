"""Several judgements at once: every lane of the executor has work while there is any.

One submission is claimed for each free lane, in the ledger's order. Duties come first, one at a time; a
calibration is measured alone.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from kernelarc_mcp.host.duty_work import DutyWork, Work
from kernelarc_mcp.host.election import SeatLost
from kernelarc_mcp.host.extra_work import ExtraWork
from kernelarc_mcp.host.guard_client import GuardError
from kernelarc_mcp.host.judgement import Judge
from kernelarc_mcp.host.judging import Described, Executor
from kernelarc_mcp.host.lane import Lane
from kernelarc_mcp.host.profile_work import ProfileWork
from kernelarc_mcp.host.storage import short_of_room
from kernelarc_mcp.host.telling import NOTABLE, Teller

_LOG: Final = logging.getLogger(__name__)


class Lanes:
    """Gives every free lane what comes next; for one time in the dispatcher's seat."""

    def __init__(
        self,
        executor: Executor,
        judge: Judge,
        lane: Lane,
        duties: DutyWork,
        profiles: ProfileWork,
        extras: ExtraWork,
        teller: Teller,
        *,
        folder: Path,
        least_free: int,
        poll: float,
        retry: float,
    ) -> None:
        """Look for work every `poll` seconds, for devices and room again after `retry` seconds."""
        self._executor = executor
        self._judge = judge
        self._lane = lane
        self._duties = duties
        self._profiles = profiles
        self._extras = extras
        self._teller = teller
        self._short: Callable[[], str] = lambda: short_of_room(folder, least_free)
        self._poll = poll
        self._retry = retry
        self._lanes = 0
        self._busy = 0
        self._on_duty = False
        """A duty or a profile is on one of the lanes."""
        self._alone = False
        """What runs allows nothing beside it."""
        self._profiled = False
        """The last thing that began was a profile: the next submission comes before the next one."""
        self._trouble = ""
        """Why nothing can begin, as last said."""
        self._laneless = False
        """It is that there are no lanes."""
        self._woken = anyio.Event()

    async def run(self, *, until_idle: bool) -> None:
        """Judge until cancelled, or until nothing is queued and nothing due."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._follow_lanes)
                group.start_soon(self._extras.follow)
                while True:
                    self._duties.tell_quarantine()
                    if isinstance(self._executor, Described):
                        self._teller.fleet(self._executor.words)
                    self._begin(group)
                    if until_idle and self._lanes and not self._busy and not self._trouble:
                        if self._extras.idle:
                            break
                    await self._wait()
                group.cancel_scope.cancel()
        except BaseExceptionGroup as several:
            raise _the_first(several) from None

    def _begin(self, group: TaskGroup) -> None:
        """Begin what can begin on the free lanes."""
        if self._lanes == 0 and (why := self._executor.trouble):
            self._say_no_lanes(why)
        elif self._lanes and self._laneless:
            # Before anything begins: a duty has notes of its own.
            self._laneless = False
            self._say_no_trouble()
        while self._busy < self._lanes and (work := self._next()) is not None:
            self._busy += 1
            group.start_soon(self._do, work)

    def _next(self) -> Work | None:
        """Return what comes next, or None where nothing can begin now; a claim is written by it."""
        if self._alone:
            return None
        if not self._on_duty and (duty := self._duties.due()) is not None:
            if duty.alone and self._busy:
                return None
            self._on_duty, self._alone = True, duty.alone
            return duty
        if self._duties.calibration_due():
            return None
        profile = None if self._on_duty else self._profiles.due()
        if profile is None or self._profiled:
            if why := self._short():
                self._say_trouble(f"{why}.")
                return None
            self._say_no_trouble()
            if (claim := self._judge.claim()) is not None:
                self._profiled = False
                return Work(lambda: self._lane.run(claim))
        if profile is None:
            return None
        self._on_duty = self._profiled = True
        return Work(lambda: self._profiles.run(profile, self._teller), duty=True)

    async def _do(self, work: Work) -> None:
        try:
            await work.run()
        finally:
            self._busy -= 1
            if work.duty:
                self._on_duty = self._alone = False
            self._woken.set()

    async def _wait(self) -> None:
        """Wait until something ended or changed; free lanes look for work again and again."""
        seconds = self._retry if self._trouble else self._poll
        full = self._lanes > 0 and self._busy >= self._lanes
        with anyio.move_on_after(None if full else seconds):
            await self._woken.wait()
        self._woken = anyio.Event()

    async def _follow_lanes(self) -> None:
        """Know how many lanes there are, whatever comes and goes."""
        while True:
            try:
                self._lanes = await self._executor.wait_lanes(self._lanes)
            except GuardError as error:
                self._lanes = 0
                self._say_no_lanes(error.words)
                await anyio.sleep(self._retry)
            self._woken.set()

    def _say_no_lanes(self, why: str) -> None:
        self._laneless = True
        self._say_trouble(f"{why}.")

    def _say_trouble(self, why: str) -> None:
        """Say why nothing begins, where that can still be said: the disk may be full."""
        if why != self._trouble:
            _LOG.warning("nothing is judged: %s", why)
        self._trouble = why
        self._teller.try_note(f"Nothing is judged: {why}")

    def _say_no_trouble(self) -> None:
        if self._trouble:
            self._trouble = ""
            _LOG.info("that is over: submissions are judged", extra=NOTABLE)
            self._teller.all_is_well()


def _the_first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one fault that counts: a lost seat, else the first; others are told to the log."""
    faults: list[BaseException] = []
    waiting: list[BaseException] = [several]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        else:
            faults.append(one)
    first = next((fault for fault in faults if isinstance(fault, SeatLost)), faults[0])
    for other in faults:
        if other is not first and not isinstance(other, SeatLost):
            _LOG.error("another lane failed too: %s", other)
    return first
