"""A referee for experiments about searching, not about measuring: fast, unprotected, and never to be trusted.

It speaks the guard's protocol and decides by the guard's own rule. But a candidate runs in the referee itself,
its true time is the least of many calls, taken once and kept, and the pairs that the rule sees are that time
with normal noise. So a search of 100 attempts takes seconds of measuring, on a busy
machine too. Whoever writes candidates must not want to cheat.

    printf '#!/bin/sh\\nexec .venv/bin/python benchmarks/quick_referee.py\\n' > quick && chmod +x quick
    kernelarc-mcp experiment FILE.yaml --dir DIR --guard-python ./quick
"""

import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from kernelarc_guard import decide
from kernelarc_guard.apart import ROUNDS, contradiction
from kernelarc_guard.dltensor import as_dltensor, load_function
from kernelarc_guard.inputs import make_inputs
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import (
    REQUEST,
    BlockTimes,
    Calibrate,
    Compare,
    Confirm,
    Lease,
    PairTimes,
    Refusal,
    Request,
    Result,
    Screen,
    StageReport,
    WorkloadReport,
)
from kernelarc_guard.ratios import anchored
from kernelarc_guard.solution import Solution
from kernelarc_guard.toolchain import find_toolchain

NOISE: Final = 3.0
"""Standard deviation of a pair, percent."""
CALLS: Final = 3
TIMED: Final = 40
RULERS: Final = decide.Rulers(
    empty_window_ns=1_000, write_bytes_per_second=1e12, copy_bytes_per_second=1e12
)


class Unfit(Exception):
    """A candidate that does not build or is wrong: verdict and reason, then what is said."""


def true_times(problem: Problem, solution: Solution, cache: Path) -> list[int]:
    """Return nanoseconds by workload, measured the first time; Unfit where there are none."""
    kept = cache / "quick" / f"{problem.digest[:12]}-{solution.digest}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        try:
            found: dict[str, Any] = {"ns": _measured(problem, solution, kept)}
        except Unfit as unfit:
            found = {"unfit": list(unfit.args)}
        making = kept.with_suffix(".new")
        making.write_text(json.dumps(found))
        making.replace(kept)
    found = json.loads(kept.read_text())
    if "unfit" in found:
        raise Unfit(*found["unfit"])
    return [int(ns) for ns in found["ns"]]


def _measured(problem: Problem, solution: Solution, kept: Path) -> list[int]:
    definition = problem.definition
    call = _native(solution, kept) if solution.is_native else None
    times = []
    for number, workload in enumerate(problem.workloads):
        inputs = make_inputs(definition, workload, seed=number)
        expected = _run_python(definition.reference, inputs)
        if call is None:
            own = _run_python(solution.sources[0].content, inputs, TIMED)
        else:
            outputs = {name: torch.empty_like(one) for name, one in expected[0].items()}
            given = [one for one in inputs.values() if isinstance(one, torch.Tensor)]
            if len(given) != len(inputs):
                raise SystemExit("this referee hands native candidates tensors only, no scalars")
            handed = [as_dltensor(one) for one in (*given, *outputs.values())]
            own = outputs, _least(partial(call, *handed), TIMED)
        for name, one in expected[0].items():
            if not torch.allclose(own[0][name], one, atol=1e-3, rtol=1e-3):
                raise Unfit("REVERT", "wrong_result", f"{name} is wrong")
        times.append(own[1])
    return times


def _native(solution: Solution, kept: Path) -> Callable[..., int]:
    toolchain = find_toolchain()
    if toolchain is None or toolchain.include is None:
        raise SystemExit("needs a C++ compiler and tvm-ffi's headers")
    source, library = kept.with_suffix(".cpp"), kept.with_suffix(".so")
    source.write_text(solution.sources[0].content)
    options = solution.spec.compile_options
    flags = list(options.cflags) if options is not None else []
    command = [toolchain.compiler, "-shared", "-fPIC", "-std=c++17", f"-I{toolchain.include}"]
    done = subprocess.run(
        [*command, *flags, str(source), "-o", str(library)], capture_output=True, text=True
    )
    if done.returncode:
        raise Unfit("REJECT", "build_failed", done.stderr[:300])
    function: Callable[..., int] = load_function(library, "run")
    return function


def _run_python(
    source: str, inputs: dict[str, Any], calls: int = 1
) -> tuple[dict[str, torch.Tensor], int]:
    namespace: dict[str, Any] = {}
    exec(compile(source, "kernel.py", "exec"), namespace)
    least = _least(lambda: namespace["run"](*inputs.values()), calls)
    returned = namespace["run"](*inputs.values())
    several = returned if isinstance(returned, tuple) else (returned,)
    # By place: they are only compared with each other.
    return {str(place): one for place, one in enumerate(several)}, least


def _least(call: Callable[[], object], calls: int) -> int:
    least = 1 << 62
    for _ in range(calls):
        begin = time.perf_counter_ns()
        call()
        least = min(least, time.perf_counter_ns() - begin)
    return least


class Draws:
    """Noisy pairs of two solutions whose times are known."""

    def __init__(self, request: Request, record: list[int], candidate: list[int]) -> None:
        """Seed the noise by the run's folder and what is compared: no two runs see the same."""
        run = Path(request.cache_dir).parent.parent.name
        self._random = random.Random(f"{run} {request.id} {request.op} {record} {candidate}")
        self._record, self._candidate = record, candidate

    def pair(self, blocks: int, anchor: list[int] | None = None) -> PairTimes:
        """Return the next pair, with the anchor's times where it is measured along."""
        off = [math.exp(self._random.gauss(0, NOISE / math.sqrt(2)) / 100) for _ in range(3)]
        third: list[list[int | None]] = [[round(ns * off[2])] * CALLS for ns in anchor or []]
        block = BlockTimes(
            record=[[round(ns * off[0])] * CALLS for ns in self._record],
            candidate=[[round(ns * off[1])] * CALLS for ns in self._candidate],
            anchor=third,
        )
        return PairTimes(record_first=self._random.random() < 0.5, blocks=[block] * blocks)


def value(request: Request, one: PairTimes) -> float:
    """Return a pair's value."""
    blocks = [(block.record, block.candidate) for block in one.blocks]
    return decide.pair_value(blocks, request.problem.weights())


def lease(request: Request, since: int) -> Lease:
    """Return when the request held the device."""
    return Lease(device=request.device, from_ns=since, to_ns=time.monotonic_ns())


def calibrate(request: Calibrate, cache: Path, since: int) -> Result:
    """Compare a solution with itself."""
    times = true_times(request.problem, request.record, cache)
    weights = request.problem.weights()
    draws = Draws(request, times, times)
    nurseries = [[draws.pair(2) for _ in range(request.pairs)] for _ in range(request.nurseries)]
    blocks = [
        [
            decide.block_values([(b.record, b.candidate) for b in one.blocks], weights)
            for one in nursery
        ]
        for nursery in nurseries
    ]
    found = decide.calibrate_from(
        request.device,
        request.problem.digest,
        time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        blocks,
        0.1,
        0.1,
        request.parameters,
        RULERS,
    )
    return Result(
        id=request.id,
        op="calibrate",
        stage="timing",
        pairs=[one for nursery in nurseries for one in nursery],
        calibration=found,
        lease=lease(request, since),
    )


def judge(request: Screen | Confirm, cache: Path, since: int) -> Result:
    """Decide about a candidate by the guard's rule."""
    problem = request.problem
    times = [true_times(problem, one, cache) for one in (request.record, request.candidate)]
    assert request.calibration is not None
    calibration, weights = request.calibration, problem.weights()
    screening = isinstance(request, Screen)
    anchor = getattr(request, "anchor", None)
    third = None if anchor is None else true_times(problem, anchor, cache)
    draws, pairs = Draws(request, *times), list[PairTimes]()
    decision: decide.Decision | None = None
    blocks = calibration.blocks_screen if screening else calibration.blocks_confirm
    while decision is None:
        pairs.append(draws.pair(blocks, third))
        values = [value(request, one) for one in pairs]
        if screening:
            decision = decide.screen(values, request.parameters, calibration, request.stake)
        else:
            each = [
                decide.workload_values(
                    [(b.record, b.candidate) for b in one.blocks], len(problem.workloads)
                )
                for one in pairs
            ]
            decision = decide.confirm(values, each, request.parameters, calibration, request.stake)
    verdict = None if decision.outcome == "promising" else decision.outcome
    reason, detail, apart = decision.reason, decision.detail, list[PairTimes]()
    if verdict == "KEEP":
        apart = [draws.pair(1) for _ in range(ROUNDS)]
        against = contradiction([value(request, one) for one in apart], decision, calibration)
        if against is not None:
            verdict, reason, detail = "ACCEPT", "gain_not_confirmed", against
    triples = [[(b.record, b.candidate, b.anchor) for b in one.blocks] for one in pairs]
    return Result(
        id=request.id,
        op=request.op,
        verdict=verdict,
        reason=reason,
        stage="timing",
        detail=detail,
        anchored=None if screening else anchored(triples, weights),
        apart=apart,
        stages={"correctness": StageReport(state="passed")},
        workloads=[
            WorkloadReport(
                uuid=workload.uuid,
                axes=workload.axes,
                state="passed",
                record_us=times[0][number] / 1000,
                candidate_us=times[1][number] / 1000,
            )
            for number, workload in enumerate(problem.workloads)
        ],
        binary=request.candidate.digest,
        pairs=pairs,
        decision=decision,
        calibration=calibration,
        protection={"sandbox": "none"},
        lease=lease(request, since),
    )


def compare(request: Compare, cache: Path, since: int) -> Result:
    """Measure pairs and decide nothing."""
    times = [true_times(request.problem, s, cache) for s in (request.record, request.candidate)]
    draws = Draws(request, *times)
    return Result(
        id=request.id,
        op="compare",
        stage="timing",
        pairs=[draws.pair(request.blocks) for _ in range(request.pairs)],
        lease=lease(request, since),
    )


def answer(request: Request) -> Result | Refusal:
    """Answer one request."""
    since, cache = time.monotonic_ns(), Path(request.cache_dir)
    try:
        if isinstance(request, Calibrate):
            return calibrate(request, cache, since)
        if isinstance(request, Compare):
            return compare(request, cache, since)
        return judge(request, cache, since)
    except Unfit as unfit:
        if isinstance(request, Calibrate):
            return Refusal(id=request.id, error=f"the seed: {unfit}")
        verdict, reason, said = unfit.args
        stage = "build" if reason == "build_failed" else "correctness"
        return Result.model_validate(
            {"id": request.id, "op": request.op, "verdict": verdict, "reason": reason}
            | {"stage": stage, "detail": said, "lease": lease(request, since)}
        )


def main() -> None:
    """Answer requests until standard input ends."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        print(answer(REQUEST.validate_json(line)).model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
