"""The guard's nurseries: one in use, one kept warm for the next confirmation."""

import itertools
from contextlib import suppress
from pathlib import Path

from kernelarc_guard.cores import pinned_to
from kernelarc_guard.faults import Refused
from kernelarc_guard.keeper import Nursery
from kernelarc_guard.keepsakes import Keepsakes
from kernelarc_guard.sandbox import Sandbox

__all__ = ["Nurseries", "Nursery"]


class Nurseries:
    """A nursery for screens and a spare that becomes the next confirmation's own."""

    def __init__(
        self,
        sandbox: Sandbox,
        folder: Path,
        devices: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        """Start the first one; their messages are kept in `folder`.

        `devices` and `environment` are what runners of a device need beside the usual.
        """
        self._devices = devices
        self._environment = environment or {}
        self._sandbox = sandbox
        self._folder = folder
        self._keepsakes = Keepsakes()
        self._numbers = itertools.count(1)
        self._log = (folder / "nursery.log").open("ab")
        self._current = self._new()
        self._spare: Nursery | None = None

    def current(self) -> Nursery:
        """Return the nursery of screens, ready."""
        self._replace_lost()
        try:
            self._current.wait_ready()
        except Refused:
            # Once more: what kept it from starting (memory, a signal) may have passed.
            self._replace_lost()
            self._current.wait_ready()
        return self._current

    def settle(self) -> None:
        """Wait until no nursery is starting, nor a runner in it: that would disturb what is timed."""
        if self._spare is not None and not self._spare.lost:
            with suppress(Refused):  # whoever needs it starts another one and says why that failed
                self._spare.wait_ready()
                self._spare.wait_ahead()

    @property
    def imported_spare(self) -> Nursery | None:
        """Return the spare where it can fork at once."""
        spare = self._spare
        return spare if spare is not None and spare.imported else None

    def drop_ahead(self) -> None:
        """End the runners that were forked ahead in the spare."""
        if self._spare is not None:
            self._spare.drop_ahead()

    def renew(self, beside: frozenset[int] = frozenset()) -> Nursery:
        """Return a nursery that has forked nothing yet, for one confirmation.

        The next spare starts at once where there are cores `beside` what is timed, and keeps to them
        until it forks; else `warm_spare` starts it.
        """
        self._forget_lost_spare()
        spare, self._spare = self._spare or self._new(), None
        spare.wait_ready()
        self._current.close()
        self._current = spare
        if beside:
            with pinned_to(beside):
                self._spare = self._new()
        return spare

    def clean(self) -> int:
        """Leave nothing of a request behind; return how many processes there were."""
        return self._current.clean()

    def pids(self) -> frozenset[int]:
        """Return the processes that are meant to stay."""
        live = (self._current, self._spare)
        return frozenset(nursery.pid for nursery in live if nursery is not None)

    @property
    def protection(self) -> dict[str, str]:
        """Return who limits the processes and memory of what was judged last."""
        return self._current.protection

    def warm_spare(self) -> None:
        """Start the spare; call it while nothing is being timed."""
        self._replace_lost()
        self._forget_lost_spare()
        if self._spare is None:
            self._spare = self._new()

    def close(self) -> None:
        """End them all."""
        for nursery in (self._current, self._spare):
            if nursery is not None:
                nursery.close()
        self._keepsakes.close()
        self._log.close()

    def _replace_lost(self) -> None:
        self._forget_lost_spare()
        if self._current.lost:
            self._current = self._spare or self._new()
            self._spare = None

    def _forget_lost_spare(self) -> None:
        if self._spare is not None and self._spare.lost:
            self._spare = None

    def _new(self) -> Nursery:
        folder = self._folder / f"nursery-{next(self._numbers)}"
        return Nursery(
            self._sandbox, folder, self._log, self._devices, self._environment, self._keepsakes
        )
