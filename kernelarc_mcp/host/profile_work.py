"""The dispatcher's part of profiles: one at a time, between two judgements."""

from collections.abc import Callable

from kernelarc_guard.inquiries import Profiled
from kernelarc_mcp.host import profiles
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.guard_client import GuardClient, GuardError, OnProgress


class ProfileWork:
    """Makes the profiles that agents asked for."""

    def __init__(self, campaign: Campaign, cache_dir: str, machine: str, deadline: float) -> None:
        """Builds are cached in `cache_dir`; `deadline` is in seconds."""
        self._campaign = campaign
        self._cache = cache_dir
        self._machine = machine
        self._deadline = deadline

    async def run_one(self, guard: GuardClient, noter: Callable[[str], OnProgress]) -> bool:
        """Make the profile that is due, if one is; `noter` says to everybody what is measured."""
        plan = profiles.due(self._campaign, self._cache)
        if plan is None:
            return False
        answer: Profiled | None = None
        detail = ""
        try:
            found = await guard.inquire(
                plan.request,
                deadline=self._deadline,
                on_progress=noter(f"{plan.ticket} is being profiled"),
            )
            answer = found if isinstance(found, Profiled) else None
        except GuardError as error:
            detail = f"It was not profiled: the guard {error}."
        profiles.done(self._campaign, plan, answer, self._machine, detail)
        return True
