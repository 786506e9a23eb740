from collections.abc import Callable
from pathlib import Path

import pytest

from kernelarc_memory import MemoryStore, NewConclusion


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    return MemoryStore(tmp_path / "memory.db")


@pytest.fixture
def conclusion() -> Callable[..., NewConclusion]:
    return make_conclusion


def make_conclusion(**changes: object) -> NewConclusion:
    """A valid win of agent ada, with some fields replaced."""
    fields: dict[str, object] = {
        "kind": "win",
        "summary": "eight accumulators hide the latency of the add",
        "lesson": "One accumulator is bound by the latency of the add; eight keep both ports busy.",
        "evidence": "s1",
        "agent": "ada",
        "lens": "hardware-native",
        "verdict": "KEEP",
        "reason": "confirmed",
        "speedup": 1.5,
        "device": "cpu",
        "operator_class": "rmsnorm",
        "campaign": "first",
        "at": "2026-01-01T12:00:00+00:00",
        "position": 1,
    }
    if changes.get("kind") == "trap" and "verdict" not in changes:
        changes |= {"verdict": "REVERT", "reason": "slower", "speedup": 0.8}
    return NewConclusion(**(fields | changes))  # type: ignore[arg-type]
