"""Do verdicts on identical candidates agree between the devices of a host?

    python -m benchmarks.fleet_gpus agreement --out FOLDER --seconds 120

The same list (much faster, faster, equal, slower, much slower, wrong) is judged on every GPU against the same
record and with the first GPU's calibration, as a fleet does, all GPUs at once, five times as far as there is time. A
process for each GPU, on cores of its own, appends to FOLDER/agreement-N.jsonl.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio

from benchmarks.fleet_machine import Machine
from benchmarks.fleet_subjects import (
    CASES,
    DELAYS,
    RECORD_DELAY,
    WRONG,
    Known,
    cycles_of_percent,
    known_kernels,
    true_gain,
)
from kernelarc_guard.decide import Calibration, pair_value
from kernelarc_guard.devices import default_parameters
from kernelarc_guard.protocol import PairTimes, Result
from kernelarc_guard.ratios import ratio_of
from kernelarc_guard.solution import Solution
from kernelarc_mcp.evaluation import STAKE
from kernelarc_mcp.fleet.core_shares import core_shares, keep_to
from kernelarc_mcp.host.guard_client import GuardClient, GuardError
from kernelarc_mcp.requests import Requests

Row = dict[str, Any]
KERNELS: Final = ("gemm", "rmsnorm-large")
_DEADLINE: Final = 120.0
_PAIRS: Final = 8
_FIRST_GUESS: Final = 15.0
"""Seconds of a judgement before one was made."""
_ROUNDS: Final = 5
_LOOK: Final = 0.1


def agreement(machine: Machine, place: Path, *, kernels: Sequence[str], until: float) -> list[Row]:
    """Judge on all devices at once; return the rows of all of them."""
    place.mkdir(parents=True, exist_ok=True)
    for old in place.glob("*.json*"):
        old.unlink()
    shares = core_shares(os.sched_getaffinity(0), machine.devices)
    workers = []
    for number, cores in enumerate(shares):
        command = [sys.executable, "-m", "benchmarks.fleet_agreement", "--out", str(place)]
        command += ["--number", str(number), "--until", f"{until:.3f}"]
        command += ["--cores", ",".join(map(str, cores)), "--kernels", *kernels]
        command += ["--guard-python", machine.guard(place, f"agreement-{number}")]
        command += ["--cpu"] * machine.on_cpu
        with (place / f"agreement-{number}.log").open("wb") as log:
            workers.append(subprocess.Popen(command, stdout=log, stderr=log))
    for worker in workers:
        try:
            worker.wait(max(until - time.monotonic(), 0.0) + 20.0)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
    rows = [
        json.loads(line)
        for path in sorted(place.glob("agreement-*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    for number, worker in enumerate(workers):
        if worker.returncode:
            said = (place / f"agreement-{number}.log").read_text().strip().splitlines()
            why = said[-1] if said else "it said nothing"
            rows.append({"device": number, "failed": f"status {worker.returncode}: {why}"})
    return rows


class Worker:
    """One device's judge."""

    def __init__(self, options: argparse.Namespace, guard: GuardClient, cache: str) -> None:
        self._options = options
        self._guard = guard
        self._cache = cache
        self._until: float = options.until
        self._took = {case: _FIRST_GUESS for case in CASES}

    async def run(self) -> None:
        """Judge one kernel after the other, each for its share of the time."""
        kernels = known_kernels(self._options.cpu, self._options.kernels)
        for number, one in enumerate(kernels):
            now = time.monotonic()
            share = (self._until - now) / (len(kernels) - number)
            try:
                await self._kernel(one, now + share)
            except (GuardError, TimeoutError) as error:
                self._keep(kernel=one.name, failed=f"{type(error).__name__}: {error}")

    async def _kernel(self, one: Known, until: float) -> None:
        device = "cpu" if self._options.cpu else f"cuda:{self._options.number}"
        requests = Requests(one.problem, device, self._cache, default_parameters(device))
        per_percent = await self._per_percent(one, requests)
        record = one.delayed(RECORD_DELAY, per_percent)
        candidates = {case: one.delayed(DELAYS[case], per_percent) for case in DELAYS}
        candidates[WRONG] = one.spoiled()
        own = await self._calibrated(requests, record, list(candidates.values()))
        self._keep(kernel=one.name, sd=own.sd_confirm, resolution=own.resolution)
        if self._options.number == 0:
            self._tell(one, "calibration", own.model_dump(mode="json"))
        shared = Calibration.model_validate(await self._told(one, "calibration", until))
        calibration = shared.model_copy(update={"device": device})
        for repeat in range(_ROUNDS):
            for case in CASES:
                if time.monotonic() + self._took[case] > until:
                    self._keep(kernel=one.name, left=f"{case}, round {repeat + 1}: no time")
                    return
                begin = time.monotonic()
                named = candidates[case].model_copy(update={"name": f"{case}-{repeat}"})
                result = await self._judge(requests, record, named, calibration)
                self._took[case] = time.monotonic() - begin
                self._keep(
                    kernel=one.name,
                    bound_by=one.bound_by,
                    case=case,
                    true_gain=true_gain(case),
                    repeat=repeat,
                    seconds=round(time.monotonic() - begin, 2),
                    **told(result),
                )

    async def _calibrated(
        self, requests: Requests, record: Solution, candidates: Sequence[Solution]
    ) -> Calibration:
        """Measure the record's noise, and have the candidates built meanwhile."""
        asked = requests.calibrate("record", record, nurseries=1, pairs=_PAIRS)
        failure: GuardError | None = None
        found: Calibration | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._build_ahead, requests, candidates)
            try:
                found = (await self._guard.judge(asked, deadline=_DEADLINE)).calibration
            except GuardError as error:
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        assert found is not None
        return found

    async def _build_ahead(self, requests: Requests, candidates: Sequence[Solution]) -> None:
        while not self._guard.busy:
            await anyio.sleep(_LOOK)
        for number, candidate in enumerate(candidates):
            await self._guard.prepare(requests.prepare(f"build{number}", candidate))

    async def _judge(
        self,
        requests: Requests,
        record: Solution,
        candidate: Solution,
        calibration: Calibration,
    ) -> Result:
        ask = requests.screen("s", record, candidate, calibration=calibration, stake=STAKE)
        result = await self._guard.judge(ask, deadline=_DEADLINE)
        if result.verdict is None:
            more = requests.confirm("c", record, candidate, calibration=calibration, stake=STAKE)
            result = await self._guard.judge(more, deadline=_DEADLINE)
        return result

    async def _per_percent(self, one: Known, requests: Requests) -> float:
        """Return the cycles of a percent, as the first device has measured them."""
        if self._options.number == 0:
            asked = requests.calibrate("plain", one.plain, nurseries=1, pairs=2)
            seen = await self._guard.judge(asked, deadline=_DEADLINE)
            plain = seen.workloads[0].record_us or 0.0
            number = 0.0 if self._options.cpu else cycles_of_percent(plain, 0)
            self._tell(one, "cycles", {"of_percent": number, "plain_us": plain})
        return float((await self._told(one, "cycles", self._until))["of_percent"])

    def _tell(self, one: Known, what: str, value: Row) -> None:
        path = self._path(one, what)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(value))
        fresh.replace(path)

    async def _told(self, one: Known, what: str, until: float) -> Row:
        path = self._path(one, what)
        while not path.exists():
            if time.monotonic() > until:
                raise TimeoutError(f"the first device did not say its {what}")
            await anyio.sleep(_LOOK)
        value: Row = json.loads(path.read_text())
        return value

    def _path(self, one: Known, what: str) -> Path:
        out: Path = self._options.out
        return out / f"shared-{one.name}-{what}.json"

    def _keep(self, **row: Any) -> None:
        path = self._options.out / f"agreement-{self._options.number}.jsonl"
        with path.open("a") as file:
            file.write(json.dumps({"device": self._options.number, **row}) + "\n")


def told(result: Result) -> Row:
    """Return what is kept of an answer: the verdict, and the ratio with its 95 % interval over its pairs."""
    values = [value(pair) for pair in result.pairs]
    ratio = ratio_of(values) if len(values) > 1 else None
    return {
        "verdict": result.verdict,
        "reason": result.reason,
        "stage": result.stage,
        "pairs": len(values),
        "values": [round(one, 4) for one in values],
        "ratio": None if ratio is None else round(ratio.ratio, 5),
        "lower": None if ratio is None else round(ratio.lower, 5),
        "upper": None if ratio is None else round(ratio.upper, 5),
        "unit": result.lease.unit if result.lease else "",
        "observations": result.observations,
    }


def value(pair: PairTimes) -> float:
    """Return a pair's gain in percent, all workloads alike."""
    weights = [1.0] * len(pair.blocks[0].record)
    return pair_value([(block.record, block.candidate) for block in pair.blocks], weights)


async def _work(options: argparse.Namespace) -> None:
    log = options.out / f"agreement-{options.number}-guard.log"
    with tempfile.TemporaryDirectory() as cache:
        async with GuardClient(options.guard_python, log) as guard:
            await Worker(options, guard, cache).run()


def main() -> None:
    """Judge on one device."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--number", type=int, required=True, help="which device this one is")
    parser.add_argument("--cores", default="", help="as in 0,1,2; empty: all")
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS))
    parser.add_argument("--until", type=float, required=True, help="second of the monotonic clock")
    parser.add_argument("--guard-python", default=sys.executable)
    parser.add_argument("--cpu", action="store_true", help="plans instead of kernels")
    options = parser.parse_args()
    if options.cores:
        keep_to({int(one) for one in options.cores.split(",")})
    anyio.run(_work, options)


if __name__ == "__main__":
    main()
