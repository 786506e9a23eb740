"""Does a measurement on one GPU change when its neighbours and its host are busy?

A bank of A/A pairs (a kernel against an identical copy) of GPU 0: nurseries with idle and with busy neighbours in turn,
first one and then the other, so that drift goes into both. What busy means is in gpu_load. Measuring and load have
cores of their own, as the devices of a fleet have.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final, Literal

from benchmarks.fleet_machine import Machine
from benchmarks.fleet_subjects import Known, known_kernels
from benchmarks.gpu_bank import Unit
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.model import Model
from kernelarc_guard.protocol import Result
from kernelarc_mcp.fleet.core_shares import core_shares
from kernelarc_mcp.host.guard_client import GuardClient, GuardError
from kernelarc_mcp.requests import Requests

State = Literal["idle", "busy"]
STATES: Final[tuple[State, State]] = ("idle", "busy")
BLOCKS: Final = 8
START: Final = 3
"""Pairs that the start of a nursery is reckoned to cost."""
_FIRST_GUESS: Final = 2.0
"""Seconds of a pair before one was measured."""
_DEADLINE: Final = 180.0
_MOST_COMPILERS, _MOST_COPIERS = 8, 4


class Measured(Model):
    """One nursery, and what the host did meanwhile."""

    state: State
    unit: Unit
    sm_mhz: float | None = None
    """Median over the blocks, as the next ones; None: the device does not tell."""
    memory_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    observations: list[str] = []
    load: dict[str, float] = {}
    """Of what works beside it, a second."""


def planned(kernels: Sequence[str], rounds: int) -> Iterator[tuple[str, State]]:
    """Yield which kernel is measured in which state; every second round begins with busy neighbours."""
    for number in range(rounds):
        for kernel in kernels:
            for state in STATES if number % 2 == 0 else reversed(STATES):
                yield kernel, state


async def interference(
    machine: Machine,
    place: Path,
    *,
    kernels: list[str],
    pairs: int,
    rounds: int,
    until: float,
    keep: Callable[[Measured], None],
) -> list[str]:
    """Measure nurseries until the time is over; return what was not reached, or could not be measured."""
    place.mkdir(parents=True, exist_ok=True)
    known = {one.name: one for one in known_kernels(machine.on_cpu, kernels)}
    took = {name: _FIRST_GUESS * (pairs + START) for name in known}
    tasks = list(planned(list(known), rounds))
    refused: dict[str, str] = {}
    before = os.sched_getaffinity(0)
    # With one device the host alone is busy, on the other half of the cores.
    shares = core_shares(before, max(machine.devices, 2))
    own = set(shares[0]) or before
    beside = (before - own) or before
    try:
        os.sched_setaffinity(0, beside)
        with neighbours(machine, place, len(beside)) as switch, tempfile.TemporaryDirectory() as at:
            os.sched_setaffinity(0, own)
            guard_python = machine.guard(place, "interference")
            async with GuardClient(guard_python, place / "interference-guard.log") as guard:
                await guard.start()
                # The first answer comes when all that works beside it is loaded.
                switch("idle")
                for done in count():
                    if done == len(tasks):
                        return _told(refused, [])
                    name, state = tasks[done]
                    if name in refused:
                        continue
                    if time.monotonic() + took[name] > until:
                        return _told(refused, tasks[done:])
                    begin = time.monotonic()
                    switch(state)
                    try:
                        result = await _compare(guard, machine, known[name], pairs, at)
                    except GuardError as error:
                        switch("idle")
                        refused[name] = str(error)
                        continue
                    load = switch("idle")
                    if result.verdict is not None:
                        refused[name] = f"{result.verdict} {result.reason}: {result.detail}"
                        continue
                    took[name] = 1.1 * (time.monotonic() - begin)
                    keep(_measured(name, machine, state, result, time.monotonic() - begin, load))
    finally:
        os.sched_setaffinity(0, before)
    return []


@contextmanager
def neighbours(
    machine: Machine, place: Path, cores: int
) -> Iterator[Callable[[State], dict[str, float]]]:
    """Yield what switches the neighbours' work and returns what they did since the last time, a second."""
    gpus = [] if machine.on_cpu else [str(number) for number in range(1, machine.devices)]
    command = [sys.executable, "-m", "benchmarks.gpu_load", "--gpus", *gpus]
    command += ["--compilers", str(max(1, min(cores // 2, _MOST_COMPILERS)))]
    command += ["--copiers", str(max(1, min(cores // 4, _MOST_COPIERS)))]
    with (place / "load.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdin is not None and process.stdout is not None
    said, heard = process.stdin, process.stdout

    def switch(state: State) -> dict[str, float]:
        said.write(f"{state}\n")
        said.flush()
        line = heard.readline()
        assert line, f"what works beside it ended: {(place / 'load.log').read_text()[-500:]}"
        rates: dict[str, float] = json.loads(line)["a second"]
        return rates

    try:
        yield switch
    finally:
        said.close()
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _compare(
    guard: GuardClient, machine: Machine, one: Known, pairs: int, cache: str
) -> Result:
    device = machine.device(0)
    requests = Requests(one.problem, device, cache, default_parameters(device))
    request = requests.compare("unit", one.plain, one.plain, pairs=pairs, blocks=BLOCKS)
    return await guard.judge(request, deadline=_DEADLINE)


def _measured(
    name: str,
    machine: Machine,
    state: State,
    result: Result,
    seconds: float,
    load: dict[str, float],
) -> Measured:
    unit = Unit(
        subject=name,
        planted=0.0,
        cycles=0,
        device=machine.device(0),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=seconds,
        pairs=result.pairs,
    )
    states = result.device_states
    return Measured(
        state=state,
        unit=unit,
        sm_mhz=_middle([one.sm_mhz for one in states]),
        memory_mhz=_middle([one.memory_mhz for one in states]),
        power_w=_middle([one.power_w for one in states]),
        temperature_c=_middle([one.temperature_c for one in states]),
        observations=result.observations,
        load=load,
    )


def _middle(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return median(told) if told else None


def _told(refused: dict[str, str], left: Sequence[tuple[str, State]]) -> list[str]:
    lines = [f"{name}: could not be measured: {why}" for name, why in refused.items()]
    for (name, state), number in Counter(left).items():
        if name not in refused:
            lines.append(f"{name}, {state} neighbours: no time for {number} more nurseries")
    return lines
