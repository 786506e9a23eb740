"""What an arm holds is freed with it, not when a collector comes by: inputs and caches are large."""

import gc
import weakref

from kernelarc_guard.arm import Arm
from kernelarc_guard.draws import Draw


def test_a_begun_call_does_not_keep_its_arm() -> None:
    arm = object.__new__(Arm)  # its processes do not matter here
    arm.begin(0, Draw({}))
    seen = weakref.ref(arm)
    gc.disable()
    try:
        del arm
        assert seen() is None
    finally:
        gc.enable()
