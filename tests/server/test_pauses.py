"""The garbage collector beside a server: it looks between calls."""

import gc
from collections.abc import Iterator

import anyio
import pytest

from kernelarc_mcp import pauses


@pytest.fixture
def looked() -> Iterator[list[int]]:
    """Return which generations have been collected; nothing is, unless somebody asks for it."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            found.append(info["generation"])

    gc.disable()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.enable()


@pytest.mark.parametrize("made", [0, 2 * pauses._WORTH])
def test_garbage_is_collected_between_calls_once_there_is_enough_of_it(
    looked: list[int], monkeypatch: pytest.MonkeyPatch, made: int
) -> None:
    monkeypatch.setattr(pauses, "_LOOK_SECONDS", 0.0)

    async def serve() -> list[list[int]]:
        kept: list[list[int]] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pauses.collect_between)
            kept += [[number] for number in range(made)]
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        return kept

    gc.collect()
    looked.clear()
    kept = anyio.run(serve)
    assert bool(looked) == bool(made) and len(kept) == made
    assert set(looked) <= {0}
