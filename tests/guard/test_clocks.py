"""A GPU's clocks are held only where that was asked for, and let go whatever happens."""

import pytest

from kernelarc_guard.cuda.clocks import LOCK_CLOCKS, steady
from kernelarc_guard.cuda.nvml import NoNvml
from kernelarc_guard.faults import Refused


class Device:
    """Remembers what was done to its clocks."""

    def __init__(self, allowed: bool = True, lost: bool = False) -> None:
        self.allowed = allowed
        self.lost = lost
        """Is the device gone when its clocks are to be let go?"""
        self.done: list[int | str] = []

    def lock_clocks(self, mhz: int) -> None:
        if not self.allowed:
            raise NoNvml("nvmlDeviceSetGpuLockedClocks: Insufficient Permissions (4)")
        self.done.append(mhz)

    def free_clocks(self) -> None:
        if self.lost:
            raise NoNvml("nvmlDeviceResetGpuLockedClocks: GPU is lost (15)")
        self.done.append("free")


def test_clocks_are_left_alone_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LOCK_CLOCKS, raising=False)
    device = Device()
    with steady(device), steady(None, "no library"):
        pass
    assert device.done == []


def test_clocks_are_let_go_after_a_failure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCK_CLOCKS, "1500")
    device = Device()
    with pytest.raises(ValueError), steady(device):
        assert device.done == [1500]
        raise ValueError
    assert device.done == [1500, "free"]


def test_clocks_that_cannot_be_let_go_hide_no_failure_and_are_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(LOCK_CLOCKS, "1500")
    with pytest.raises(ValueError, match="^first$"), steady(Device(lost=True)):
        raise ValueError("first")
    assert "the clocks stay locked" in caplog.text and "GPU is lost" in caplog.text
    with pytest.raises(Refused, match="the clocks stay locked.*GPU is lost"):
        with steady(Device(lost=True)):
            pass


@pytest.mark.parametrize(
    ("asked", "device", "told"),
    [
        ("1500", Device(allowed=False), "Insufficient Permissions"),
        ("1500", None, "no library"),
        ("fast", Device(), "expected megahertz"),
        ("0", Device(), "expected megahertz"),
    ],
)
def test_what_cannot_be_held_is_refused(
    monkeypatch: pytest.MonkeyPatch, asked: str, device: Device | None, told: str
) -> None:
    monkeypatch.setenv(LOCK_CLOCKS, asked)
    with pytest.raises(Refused, match=told), steady(device, "no library"):
        raise AssertionError("it began")
