"""Whoever waits for a device gets it before who had it last."""

import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from kernelarc_guard import lease
from kernelarc_guard.lease import DeviceLease


def _taken(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def test_who_held_the_device_last_cannot_take_it_again_before_one_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "lock_dir", lambda: tmp_path)
    order: list[str] = []

    def waits() -> None:
        with DeviceLease("gpu"):
            order.append("who waited")

    with DeviceLease("gpu"):
        waiting = threading.Thread(target=waits)
        waiting.start()
        deadline = time.monotonic() + 60
        while not _taken(tmp_path / "turn-gpu.lock"):
            assert time.monotonic() < deadline, "nobody waits for the turn"
    with DeviceLease("gpu"):
        order.append("who had it")
    waiting.join()
    assert order == ["who waited", "who had it"]
    assert not _taken(tmp_path / "turn-gpu.lock") and not _taken(tmp_path / "device-gpu.lock")
