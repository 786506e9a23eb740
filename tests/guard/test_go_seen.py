"""When a window on a GPU begins: go as the guard saw it last closed, however late it notices."""

import time
from typing import Any

import pytest

from kernelarc_guard.cuda.flags import Flags

LIMIT = 1_000_000


class Word:
    """The word that the device sets at a nanosecond; after each look the guard is held up."""

    def __init__(self, opens: int, held_up: list[int]) -> None:
        self.now = 0
        self._opens = opens
        self._held_up = iter(held_up)

    @property
    def value(self) -> int:
        """Look at it."""
        seen = int(self.now >= self._opens)
        self.now += next(self._held_up)
        return seen


def page(opens: int, held_up: list[int], monkeypatch: pytest.MonkeyPatch) -> Flags:
    """Return flags without a device, and let the clock be theirs."""
    word: Any = Word(opens, held_up)
    flags = object.__new__(Flags)
    flags._go = word
    monkeypatch.setattr(time, "perf_counter_ns", lambda: word.now)
    return flags


@pytest.mark.parametrize("held_up", [50, 20_000, 2_000_000])
def test_a_guard_that_notices_go_late_takes_no_window_for_shorter_than_it_is(
    held_up: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = page(320, [100, 100, 100, held_up, 100], monkeypatch)
    assert flags.wait_open(1, closed=0, limit=LIMIT) == 300


def test_a_window_of_which_go_was_never_seen_closed_begins_before_go_was_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = page(0, [100], monkeypatch)
    assert flags.wait_open(1, closed=-7_000, limit=LIMIT) == -7_000


def test_go_that_does_not_open_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = page(5 * LIMIT, [LIMIT // 2] * 4, monkeypatch)
    with pytest.raises(RuntimeError, match="does not end"):
        flags.wait_open(1, closed=0, limit=LIMIT)
