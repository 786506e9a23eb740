"""One submission on one lane: the screen, the stake, the confirmation, and what may go wrong."""

import logging
from contextlib import suppress
from typing import Final

import anyio

from kernelarc_guard.protocol import Result
from kernelarc_mcp.host.election import SeatLost
from kernelarc_mcp.host.guard_client import DeviceLost, GuardDied, GuardNotStarted, GuardRefused
from kernelarc_mcp.host.judgement import Claim, Judge
from kernelarc_mcp.host.judging import Executor
from kernelarc_mcp.host.telling import Teller

_LOG: Final = logging.getLogger(__name__)
_FIRST_REST: Final = 1.0
"""Seconds after the first refusal of a submission: what disturbed the device is often over by then."""


class Lane:
    """Judges one claim to its end; several run side by side."""

    def __init__(
        self,
        judge: Judge,
        executor: Executor,
        teller: Teller,
        cache_dir: str,
        *,
        deadline: float,
        retry: float,
    ) -> None:
        """`deadline` and `retry`, the longest wait after a refusal, are in seconds."""
        self._judge = judge
        self._executor = executor
        self._teller = teller
        self._cache = cache_dir
        self._deadline = deadline
        self._retry = retry
        self._rests: dict[str, float] = {}
        """Seconds that a lane rested last for a submission that the guard could not judge."""
        self._told = ""
        """Why the guard could not judge the submission that it refused last, as the log was told."""

    async def run(self, claim: Claim) -> None:
        """Settle a claim or queue it again, whatever happens."""
        staked = False
        try:
            promising = await self._screen(claim)
            if promising is not None:
                staked = True
                await self._confirm(claim, *promising)
            self._rests.pop(claim.ticket, None)
            self._told = ""
        except GuardNotStarted as error:
            await self._refused(claim, error.sentence, staked)
        except GuardDied as error:
            self._judge.interrupted(claim, "guard_died", error.sentence)
        except DeviceLost as error:
            self._judge.interrupted(claim, "device_lost", f"The device was lost: {error}.")
        except GuardRefused as error:
            said = error.sentence
            if error.code == "record_failed":
                self._judge.interrupted(claim, "record_failed", said)
            elif error.code == "builder_lost":
                self._judge.interrupted(claim, "builder_lost", said)
            else:
                await self._refused(claim, said, staked)
        except anyio.get_cancelled_exc_class():
            with suppress(SeatLost):  # whoever took over has it in the queue already
                self._judge.interrupted(claim, "stopped", "The dispatcher was stopped.")
            raise

    async def _refused(self, claim: Claim, why: str, staked: bool) -> None:
        """Queue a submission again that the guard could not judge; this lane rests for a while.

        Not for long at first, then longer each time; but as long as it may once something was
        staked, for each such refusal costs that, and the last one ends it.
        """
        self._judge.interrupted(claim, "guard_refused", why)
        rests = "Nothing is judged" if self._executor.lanes <= 1 else "A lane judges nothing"
        self._teller.note(f"{rests}: {why}")
        longer = 2 * self._rests.get(claim.ticket, _FIRST_REST / 2)
        self._rests[claim.ticket] = min(self._retry, longer)
        rest = self._retry if staked else self._rests[claim.ticket]
        if why != self._told:
            said = "%s was not judged and is tried again in %g s: %s"
            _LOG.warning(said, claim.ticket, rest, why)
            self._told = why
        await anyio.sleep(rest)
        self._teller.all_is_well()

    async def _screen(self, claim: Claim) -> tuple[Result, float] | None:
        """Screen a claim; return that and what is staked where it is to be confirmed, else None."""
        screen = await self._executor.judge(
            self._judge.screen_request(claim, self._cache),
            deadline=self._deadline,
            on_progress=self._teller.reporter(claim.ticket, confirming=False),
        )
        _check_result(screen, "screen")
        if not self._judge.screened(claim, screen):
            return None
        stake = self._judge.stake(claim)
        return None if stake is None else (screen, stake)

    async def _confirm(self, claim: Claim, screen: Result, stake: float) -> None:
        result = await self._executor.judge(
            self._judge.confirm_request(claim, screen, stake, self._cache),
            deadline=self._deadline,
            on_progress=self._teller.reporter(claim.ticket, confirming=True),
        )
        _check_result(result, "confirm")
        self._judge.confirmed(claim, result)


def _check_result(result: Result, op: str) -> None:
    """Treat an answer that does not fit its request as a guard that has lost its way."""
    if result.op != op:
        raise GuardDied(f"answered a {op} with a {result.op}")
    if op == "confirm" and result.verdict is None:
        raise GuardDied("confirmed without a verdict")
