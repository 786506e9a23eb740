"""The dispatcher's part of profiles: one at a time, on a lane that is free."""

from time import monotonic_ns

import anyio

from kernelarc_guard.inquiries import Profiled
from kernelarc_guard.protocol import DEVICE_HELD, Lease, Progress
from kernelarc_mcp.host import profiles
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.guard_client import DeviceLost, GuardError, GuardRefused, OnProgress
from kernelarc_mcp.host.judging import Guard
from kernelarc_mcp.host.profile_events import ProfileDone
from kernelarc_mcp.host.profiles import ProfilePlan
from kernelarc_mcp.host.telling import Teller


class ProfileWork:
    """Makes the profiles that agents asked for."""

    def __init__(
        self,
        campaign: Campaign,
        guard: Guard,
        cache_dir: str,
        machine: str,
        *,
        deadline: float,
        retry: float,
    ) -> None:
        """Builds are cached in `cache_dir`; `deadline` and `retry`, after a lost device, are in seconds."""
        self._campaign = campaign
        self._guard = guard
        self._cache = cache_dir
        self._machine = machine
        self._deadline = deadline
        self._retry = retry

    def due(self) -> ProfilePlan | None:
        """Return the profile that is due; those that come too late are given up."""
        profiles.drop_late(self._campaign, self._machine)
        return profiles.due(self._campaign, self._cache)

    async def run(self, plan: ProfilePlan, teller: Teller) -> None:
        """Make a profile, or say why not; `teller` says to everybody that it is being made."""
        answer: Profiled | None = None
        lease: Lease | None = None
        detail = ""
        watch = _Watch(plan.request.device, teller.noter(f"{plan.ticket} is being profiled"))
        try:
            found = await self._guard.inquire(
                plan.request, deadline=self._deadline, on_progress=watch.heard
            )
            answer = found if isinstance(found, Profiled) else None
        except DeviceLost as error:
            # It stays due, and costs its agent neither a try nor time.
            teller.note(f"A profile of {plan.ticket} is made again: {error.words}.")
            await anyio.sleep(self._retry)
            teller.all_is_well()
            return
        except GuardError as error:
            detail = f"It was not profiled: {error.words}."
            told = error.lease if isinstance(error, GuardRefused) else None
            lease = told or watch.until_now()
        body = ProfileDone(
            workload=plan.workload,
            answer=answer,
            lease=lease,
            machine=self._machine,
            detail=detail,
        )
        profiles.done(self._campaign, plan, body)
        teller.all_is_well()


class _Watch:
    """Knows since when a guard holds the device: one that dies can tell no more."""

    def __init__(self, device: str, pass_on: OnProgress) -> None:
        self._device = device
        self._pass_on = pass_on
        self._since: int | None = None

    def heard(self, progress: Progress) -> None:
        """Take note of a sign of life."""
        if progress.message == DEVICE_HELD:
            self._since = monotonic_ns()
        self._pass_on(progress)

    def until_now(self) -> Lease | None:
        """Return the lease of a guard that is gone, or None where it did not hold the device."""
        if self._since is None:
            return None
        return Lease(device=self._device, from_ns=self._since, to_ns=monotonic_ns())
