"""Devices of one host have cores of their own, so that their guards do not time on the same one."""

import subprocess
import sys

import pytest

from kernelarc_mcp.fleet.core_shares import core_shares


@pytest.mark.parametrize(
    ("cores", "devices", "shares"),
    [
        (range(16), 2, [tuple(range(8)), tuple(range(8, 16))]),
        ((9, 3, 1, 2, 8, 11, 10, 4, 12), 2, [(1, 2, 3, 4), (8, 9, 10, 11)]),
        (range(16), 1, [()]),
        (range(7), 2, [(), ()]),
        (range(7), 0, []),
    ],
)
def test_devices_share_a_hosts_cores_where_there_are_enough(
    cores: range, devices: int, shares: list[tuple[int, ...]]
) -> None:
    assert core_shares(cores, devices) == shares


def test_whatever_a_process_starts_keeps_to_its_cores() -> None:
    program = """if True:
        import os, subprocess, sys, threading
        from kernelarc_mcp.fleet.core_shares import keep_to
        one = min(os.sched_getaffinity(0))
        ask = "import os; print(os.sched_getaffinity(0))"
        ready, go = threading.Event(), threading.Event()
        def other():
            ready.set(); go.wait()
            sys.stdout.write(subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout)
        thread = threading.Thread(target=other)
        thread.start(); ready.wait(); keep_to({one}); go.set(); thread.join()
        assert os.sched_getaffinity(0) == {one}
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split(",")) == 1
