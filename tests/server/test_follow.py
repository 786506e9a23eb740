"""What a waiting call tells meanwhile."""

from typing import cast

import anyio
import pytest
from mcp.server.mcpserver import Context
from server_campaigns import KERNEL, Place

from kernelarc_mcp import follow
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.views import SubmissionView

pytestmark = pytest.mark.anyio


class Judging:
    """A host whose submission has another state at each look."""

    stopping = False
    waiting = 0

    def __init__(self, views: list[SubmissionView]) -> None:
        self._views = views
        self._looks = 0

    def changed(self, ticket: str) -> int:
        """Return another number each time."""
        self._looks += 1
        return self._looks

    def submission(self, agent: str, ticket: str) -> SubmissionView:
        """Return the next state."""
        return self._views.pop(0)


class Listener:
    """Hears the progress of one call."""

    def __init__(self) -> None:
        self.told: list[tuple[float, float | None, str | None]] = []

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Note what was told."""
        self.told.append((progress, total, message))


async def test_progress_rises_strictly_and_says_stage_and_block_whatever_the_guard_says(
    place: Place,
) -> None:
    host = Host.open(place.folder)
    host.register("ada")
    ticket, _ = host.submit("ada", source=KERNEL, summary="x + x")
    queued = host.submission("ada", ticket)
    block = "pair 2: a block is measured"
    states = [
        queued,
        queued,
        queued.model_copy(
            update={"state": "judging", "stage": "build", "percent": 24, "message": "build started"}
        ),
        *(
            queued.model_copy(
                update={"state": "judging", "stage": "timing", "percent": p, "message": block}
            )
            # A confirmation begins below where a long screen had come to.
            for p in (52, 52, 50, 61)
        ),
        queued.model_copy(update={"state": "done"}),
    ]
    heard = Listener()
    with anyio.fail_after(20):
        view = await follow.follow(
            cast(Host, Judging(states)), "ada", ticket, cast("Context[None, None]", heard), 20
        )
    host.close()
    assert view.state == "done"
    amounts = [amount for amount, _, _ in heard.told]
    assert len(amounts) == 7
    assert all(low < high for low, high in zip(amounts, amounts[1:], strict=False))
    assert all(total == 100 for _, total, _ in heard.told)
    assert heard.told[2][2] == "build: build started"
    assert [message for _, _, message in heard.told[3:]] == [f"timing: {block}"] * 4
