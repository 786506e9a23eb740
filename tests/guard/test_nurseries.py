"""Nurseries that die are replaced, whatever they died of."""

import os
import signal
from pathlib import Path

import pytest

from kernelarc_guard.faults import Refused
from kernelarc_guard.nurseries import Nurseries
from kernelarc_guard.processes import descendants, kill_all
from kernelarc_guard.sandbox import find_sandbox


def kill(pid: int) -> None:
    kill_all([*descendants(pid), pid])


def test_a_nursery_killed_while_it_imports_is_replaced(tmp_path: Path) -> None:
    nurseries = Nurseries(find_sandbox(), tmp_path)
    try:
        first = nurseries.current().pid
        nurseries.warm_spare()
        (spare,) = nurseries.pids() - {first}
        kill(spare)
        with pytest.raises(Refused, match="did not start"):
            nurseries.renew()
        core = min(os.sched_getaffinity(0))
        renewed = nurseries.renew(beside=frozenset({core})).pid
        assert renewed not in (first, spare)
        (early,) = nurseries.pids() - {renewed}
        assert os.sched_getaffinity(early) == {core}, "the next one starts off what is timed"
    finally:
        nurseries.close()


def test_the_nursery_of_screens_is_replaced_when_it_is_lost(tmp_path: Path) -> None:
    nurseries = Nurseries(find_sandbox(), tmp_path)
    try:
        (first,) = nurseries.pids()
        kill(first)
        assert nurseries.current().pid != first
        with pytest.raises(ProcessLookupError):
            os.kill(first, signal.SIGCONT)
    finally:
        nurseries.close()
