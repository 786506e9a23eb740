"""An executor in this process: scripted guards without processes, each held until a test lets it answer."""

from types import TracebackType
from typing import Self

import anyio
import scripted_guard

from kernelarc_guard.inquiries import Counted, Inquiry, Profiled
from kernelarc_guard.protocol import Refusal, Request, Result
from kernelarc_mcp.host.guard_client import GuardRefused, OnProgress


class InProcess:
    """Answers as the scripted guard does, on several lanes."""

    trouble = ""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.asked: list[str] = []
        """Ids of the requests that wait for their answers now, in the order in which they came."""
        self.ever: list[str] = []
        self._free: set[str] = set()
        self._all_free = False
        self._moved = anyio.Event()

    def let(self, *ids: str) -> None:
        """Have requests answered, now or when they come; all of them where none is named."""
        self._free |= set(ids)
        self._all_free |= not ids
        self._wake()

    async def until(self, *ids: str) -> None:
        """Wait until exactly these requests are under way."""
        with anyio.fail_after(60):
            while set(self.asked) != set(ids):
                await self._moved.wait()

    async def judge(
        self, request: Request, *, deadline: float, on_progress: OnProgress | None = None
    ) -> Result:
        """Answer when the test lets it."""
        self.asked.append(request.id)
        self.ever.append(request.id)
        self._wake()
        try:
            while not self._all_free and request.id not in self._free:
                await self._moved.wait()
            self._free.discard(request.id)
        finally:
            self.asked.remove(request.id)
            self._wake()
        given = answer(request)
        if not isinstance(given, Result):
            raise GuardRefused(given.error, given.code)
        return given

    async def inquire(
        self, inquiry: Inquiry, *, deadline: float, on_progress: OnProgress | None = None
    ) -> Counted | Profiled:
        """Refuse: nothing asks."""
        raise GuardRefused("it answers no inquiries")

    async def wait_lanes(self, known: int) -> int:
        """Return how many there are; they stay as many."""
        if known == self.lanes:
            await anyio.sleep_forever()
        return self.lanes

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def _wake(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()


def answer(request: Request) -> Result | Refusal:
    """Answer as the scripted guard does, in this process and without its signs of life."""
    scripted_guard.say = lambda answer: None
    return scripted_guard.answer(request)
