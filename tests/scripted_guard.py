"""A stand-in for the guard: its protocol and its decision rule, times made up from a PLAN.

PLAN in a candidate's source is one of
    gain:PERCENT   right, and this much faster than the record
    wrong          right shape, wrong values: REVERT wrong_result
    broken         does not compile: REJECT build_failed
    die            the guard's process dies
    die_once       it dies the first time
    refuse         the guard refuses
    hang_once      the guard answers nothing more until its stdin closes, the first time
    die_confirming right and fast, but the guard dies in the confirmation
"""

import math
import os
import re
import sys
import time
from pathlib import Path

from kernelarc_guard import decide
from kernelarc_guard.protocol import (
    REQUEST,
    BlockTimes,
    Calibrate,
    Confirm,
    Lease,
    PairTimes,
    Progress,
    Refusal,
    Request,
    Result,
    Screen,
    StageReport,
    WorkloadReport,
)

CALLS = 3
RECORD_NS = 1_000_000


def say(answer: Progress | Result | Refusal) -> None:
    print(answer.model_dump_json(), flush=True)


def plan_of(request: Screen | Confirm) -> tuple[str, float]:
    text = "\n".join(source.content for source in request.candidate.sources)
    found = re.search(r"^PLAN = '([a-z_]+)(?::([-0-9.]+))?'", text, re.MULTILINE)
    if found is None:
        return "gain", 0.0
    return found[1], float(found[2] or 0.0)


def pair(gain: float, number: int, blocks: int, workloads: int) -> PairTimes:
    """Make a pair whose value lies 0.02 % around the gain."""
    jitter = 0.02 if number % 2 else -0.02
    candidate = round(RECORD_NS * math.exp(-(gain + jitter) / 100))
    block = BlockTimes(
        record=[[RECORD_NS] * CALLS for _ in range(workloads)],
        candidate=[[candidate] * CALLS for _ in range(workloads)],
    )
    return PairTimes(record_first=bool(number % 2), blocks=[block] * blocks)


def value(request: Request, times: PairTimes) -> float:
    blocks = [(block.record, block.candidate) for block in times.blocks]
    return decide.pair_value(blocks, request.problem.weights())


def reports(request: Request, gain: float) -> list[WorkloadReport]:
    return [
        WorkloadReport(
            uuid=workload.uuid,
            axes=workload.axes,
            state="passed",
            record_us=RECORD_NS / 1000,
            candidate_us=RECORD_NS / 1000 * math.exp(-gain / 100),
        )
        for workload in request.problem.workloads
    ]


def calibrate(request: Calibrate, since: int) -> Result:
    pairs = [pair(0.0, n, 2, len(request.problem.workloads)) for n in range(request.pairs)]
    blocks = [[value(request, times)] * 2 for times in pairs]
    calibration = decide.calibrate_from(
        request.device,
        request.problem.digest,
        "2026-01-01T00:00:00+00:00",
        [blocks],
        0.1,
        0.1,
        decide.Parameters(),
    )
    return Result(
        id=request.id,
        op="calibrate",
        stage="timing",
        workloads=reports(request, 0.0),
        pairs=pairs,
        calibration=calibration,
        lease=lease(request, since),
    )


def measure(request: Screen | Confirm, gain: float, since: int) -> Result:
    calibration = request.calibration
    assert calibration is not None
    pairs: list[PairTimes] = []
    decision: decide.Decision | None = None
    workloads = len(request.problem.workloads)
    while decision is None:
        number = len(pairs)
        say(progress(request, number + 1))
        screening = isinstance(request, Screen)
        blocks = calibration.blocks_screen if screening else calibration.blocks_confirm
        pairs.append(pair(gain, number, blocks, workloads))
        values = [value(request, times) for times in pairs]
        if screening:
            decision = decide.screen(values, request.parameters, calibration, request.stake)
        else:
            each = [
                decide.workload_values([(b.record, b.candidate) for b in p.blocks], workloads)
                for p in pairs
            ]
            decision = decide.confirm(values, each, request.parameters, calibration, request.stake)
    verdict = None if decision.outcome == "promising" else decision.outcome
    return Result(
        id=request.id,
        op=request.op,
        verdict=verdict,
        reason=decision.reason,
        stage="timing",
        detail=decision.detail,
        stages={"correctness": StageReport(state="passed")},
        workloads=reports(request, gain),
        binary=request.candidate.digest,
        pairs=pairs,
        decision=decision,
        calibration=calibration,
        protection={"sandbox": "none"},
        lease=lease(request, since),
    )


def progress(request: Request, done: float) -> Progress:
    return Progress(id=request.id, stage="timing", done=done, of=40.0, message=f"pair {done:g}")


def lease(request: Request, since: int) -> Lease:
    return Lease(device=request.device, from_ns=since, to_ns=time.monotonic_ns())


def answer(request: Request) -> Result | Refusal:
    since = time.monotonic_ns()
    if isinstance(request, Calibrate):
        return calibrate(request, since)
    plan, gain = plan_of(request)
    if plan in ("die_once", "hang_once"):
        flag = Path(request.cache_dir) / f"{plan}-{request.id}"
        flag.parent.mkdir(parents=True, exist_ok=True)
        if not flag.exists():
            flag.touch()
            if plan == "hang_once":
                say(progress(request, 1.0))
                sys.stdin.read()
            os._exit(9)
    if plan == "die" or (plan == "die_confirming" and isinstance(request, Confirm)):
        os._exit(9)
    if plan == "refuse":
        return Refusal(id=request.id, error="the record does not build")
    if plan == "broken":
        return Result(
            id=request.id,
            op=request.op,
            verdict="REJECT",
            reason="build_failed",
            stage="build",
            detail="kernel.py:1: expected something else.",
        )
    if plan == "wrong":
        return Result(
            id=request.id,
            op=request.op,
            verdict="REVERT",
            reason="wrong_result",
            stage="correctness",
            detail="An element is off by 1.",
            binary=request.candidate.digest,
            lease=lease(request, since),
        )
    return measure(request, 5.0 if plan == "die_confirming" else gain, since)


if __name__ == "__main__":
    print("scripted guard", file=sys.stderr, flush=True)
    for line in sys.stdin:
        say(answer(REQUEST.validate_json(line)))
