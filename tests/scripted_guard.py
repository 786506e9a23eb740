"""A stand-in for the guard: its protocol and its decision rule, times made up from a PLAN.

PLAN in a candidate's source is one of
    gain:PERCENT   right, and this much faster than the record
    wrong          right shape, wrong values: REVERT wrong_result
    broken         does not compile: REJECT build_failed
    die            the guard's process dies
    die_once       it dies the first time
    loses_builder  what builds it is killed, every time
    refuse_once    the guard refuses the first time
    refuse_often   it refuses the first four times
    refuse_late    the guard refuses to confirm
    hang_once      the guard answers nothing more until its stdin closes, the first time
    die_confirming right and fast, but the guard dies in the confirmation
    fades:PERCENT  as gain, but once it is the record it is only a quarter as much faster than the seed
    dips:PERCENT   as fades, but measured again with no candidate it is as fast as it was
    spoils:PERCENT as gain, but once it is the record it fails, and when it is measured again too
    trips:PERCENT  as spoils, but measured again with no candidate it is right
    bully:PERCENT  as gain beside the record; in separate lifetimes it is no faster
    narrow:PERCENT as gain, but wrong on another model than `scripted`
    instant        right, but faster than the device can be woken
    leans:PERCENT  as gain; compared with itself the second arm is 1 % faster
    held_PART:PERCENT  as gain, but it waits where PART says, screening or confirming: it touches
                   `held-REQUEST`, and goes on when there is `go` or `go-REQUEST`, in the cache's directory
    halts_STAGE:PERCENT  as gain, but the first time it stops for good where STAGE says: asked, build,
                   correctness, timing, confirming, or answered: with its confirmation out, while nobody can
                   write the campaign's database. It waits for `halt-STAGE.go` before that and touches
                   `halt-STAGE` then, both in the cache's directory.
"""

import math
import os
import re
import sqlite3
import sys
import time
from pathlib import Path

from kernelarc_guard import decide
from kernelarc_guard.apart import ROUNDS, contradiction
from kernelarc_guard.prepare import prepare_in
from kernelarc_guard.protocol import (
    REQUEST,
    BaseRequest,
    BlockTimes,
    Calibrate,
    Compare,
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
from kernelarc_guard.ratios import anchored as anchored_of
from kernelarc_guard.solution import Solution

CALLS = 3
RECORD_NS = 1_000_000
RULERS = decide.Rulers(
    empty_window_ns=10_000, write_bytes_per_second=2e10, copy_bytes_per_second=1e10
)

MODEL = "scripted"
"""Of the device; a fleet has others, too."""
TOOLCHAIN = {"C++": "GCC 12.2.0", "Python": "3.11.9", "torch": "2.11.0"}


def say(answer: Progress | Result | Refusal) -> None:
    print(answer.model_dump_json(), flush=True)


def plan_of(solution: Solution) -> tuple[str, float]:
    text = "\n".join(source.content for source in solution.sources)
    found = re.search(r"^PLAN = '([a-z_]+)(?::([-0-9.]+))?'", text, re.MULTILINE)
    if found is None:
        return "gain", 0.0
    return found[1], float(found[2] or 0.0)


def pair(
    gain: float, number: int, blocks: int, workloads: int, over_anchor: float | None = None
) -> PairTimes:
    """Make a pair whose value lies 0.02 % around the gain; `over_anchor` is the record's gain."""
    jitter = 0.02 if number % 2 else -0.02
    candidate = round(RECORD_NS * math.exp(-(gain + jitter) / 100))
    anchor: list[list[int | None]] = []
    if over_anchor is not None:
        slow = round(RECORD_NS * math.exp((over_anchor + jitter) / 100))
        anchor = [[slow, None, slow] for _ in range(workloads)]
    block = BlockTimes(
        record=[[RECORD_NS] * CALLS for _ in range(workloads)],
        candidate=[[candidate] * CALLS for _ in range(workloads)],
        anchor=anchor,
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
            max_absolute_error=1e-6 if isinstance(request, Screen) else None,
            record_us=RECORD_NS / 1000,
            candidate_us=RECORD_NS / 1000 * math.exp(-gain / 100),
        )
        for workload in request.problem.workloads
    ]


def calibrate(request: Calibrate, since: int) -> Result:
    nurseries = [
        [pair(0.0, n, 2, len(request.problem.workloads)) for n in range(request.pairs)]
        for _ in range(request.nurseries)
    ]
    pairs = [one for nursery in nurseries for one in nursery]
    weights = request.problem.weights()
    blocks = [
        [
            decide.block_values([(b.record, b.candidate) for b in times.blocks], weights)
            for times in nursery
        ]
        for nursery in nurseries
    ]
    calibration = decide.calibrate_from(
        request.device,
        request.problem.digest,
        "2026-01-01T00:00:00+00:00",
        blocks,
        0.1,
        0.1,
        request.parameters,
        RULERS,
        TOOLCHAIN,
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


def own_calibration(request: Screen | Confirm, since: int) -> decide.Calibration:
    """Measure one as the guard does where a request brings none."""
    shared = {name: getattr(request, name) for name in BaseRequest.model_fields}
    asked = Calibrate.model_validate(
        shared
        | {"problem": request.problem, "record": request.record, "op": "calibrate"}
        | {"parameters": request.parameters}
    )
    found = calibrate(asked, since).calibration
    assert found is not None
    return found


def measure(request: Screen | Confirm, gain: float, since: int) -> Result:
    calibration = request.calibration or own_calibration(request, since)
    pairs: list[PairTimes] = []
    decision: decide.Decision | None = None
    workloads = len(request.problem.workloads)
    while decision is None:
        number = len(pairs)
        say(progress(request, number + 1))
        screening = isinstance(request, Screen)
        blocks = calibration.blocks_screen if screening else calibration.blocks_confirm
        anchored = isinstance(request, Confirm) and request.anchor is not None
        over = gain_as_record(request.record) if anchored else None
        pairs.append(pair(gain, number, blocks, workloads, over))
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
    reason, detail, apart = decision.reason, decision.detail, []
    if verdict == "KEEP":
        alone = 0.0 if plan_of(request.candidate)[0] == "bully" else gain
        apart = [pair(alone, number, 1, workloads) for number in range(ROUNDS)]
        why = contradiction([value(request, one) for one in apart], decision, calibration)
        if why is not None:
            verdict, reason, detail = "ACCEPT", "gain_not_confirmed", why
    triples = [[(b.record, b.candidate, b.anchor) for b in one.blocks] for one in pairs]
    weights = request.problem.weights()
    return Result(
        id=request.id,
        op=request.op,
        verdict=verdict,
        reason=reason,
        stage="timing",
        detail=detail,
        anchored=anchored_of(triples, weights) if isinstance(request, Confirm) else None,
        apart=apart,
        stages={"correctness": StageReport(state="passed")},
        workloads=reports(request, gain),
        binary=request.candidate.digest,
        pairs=pairs,
        decision=decision,
        calibration=calibration,
        protection={"sandbox": "none"},
        lease=lease(request, since),
    )


def gain_as_record(record: Solution) -> float:
    plan, gain = plan_of(record)
    return gain / 4 if plan in ("fades", "dips") else gain


def compare(request: Compare, since: int) -> Result:
    """Compare the seed with a record, or a record with itself."""
    plan, gain = plan_of(request.candidate)
    if request.candidate.digest == request.record.digest:
        gain = (1.0 if plan == "leans" else 0.0) - request.planted
    elif plan == "spoils" or (plan == "narrow" and MODEL != "scripted"):
        return wrong(request, since)
    elif plan == "fades":
        gain /= 4
    workloads = len(request.problem.workloads)
    return Result(
        id=request.id,
        op="compare",
        stage="timing",
        pairs=[pair(gain, number, request.blocks, workloads) for number in range(request.pairs)],
        lease=lease(request, since),
    )


def wrong(request: Screen | Confirm | Compare, since: int) -> Result:
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


def instant(request: Screen | Confirm, since: int) -> Result:
    return Result(
        id=request.id,
        op=request.op,
        verdict="REVERT",
        reason="below_physical_limit",
        stage="timing",
        detail="A call took 1 us.",
        binary=request.candidate.digest,
        pairs=[pair(690.0, 0, 1, len(request.problem.workloads))],
        calibration=request.calibration,
        lease=lease(request, since),
    )


def progress(request: Request, done: float) -> Progress:
    return Progress(id=request.id, stage="timing", done=done, of=40.0, message=f"pair {done:g}")


def lease(request: Request, since: int) -> Lease:
    return Lease(device=request.device, from_ns=since, to_ns=time.monotonic_ns())


def halt(request: Screen | Confirm, stage: str, gain: float, since: int) -> None:
    """Stop for good where `stage` says, unless that was done before; a lost server ends this."""
    mark = Path(request.cache_dir) / f"halt-{stage}"
    if mark.exists() or isinstance(request, Confirm) != (stage in ("confirming", "answered")):
        return
    while not mark.with_suffix(".go").exists():
        time.sleep(0.01)
    if stage == "answered":
        result = measure(request, gain, since)
        database = Path(request.cache_dir).parent / "campaign.db"
        writer = sqlite3.connect(database, timeout=60.0, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        say(result)
    elif stage != "asked":
        known = progress(request, 0.5)
        at = {"build": "build", "correctness": "correctness"}.get(stage, "timing")
        say(known.model_copy(update={"stage": at}))
    mark.touch()
    sys.stdin.read()
    os._exit(9)


def hold(request: Screen | Confirm, part: str) -> None:
    """Wait where `part` says until the test lets go."""
    if isinstance(request, Confirm) != (part == "confirming"):
        return
    folder = Path(request.cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    say(progress(request, 0.5))
    name = plain(request)
    (folder / f"held-{name}").touch()
    while not (folder / "go").exists() and not (folder / f"go-{name}").exists():
        time.sleep(0.01)


def plain(request: Request) -> str:
    """Return a request's id as a dispatcher gave it: a fleet's has a number behind it."""
    return request.id.partition(".")[0]


def answer(request: Request) -> Result | Refusal:
    since = time.monotonic_ns()
    if isinstance(request, Calibrate):
        if request.pairs == 999:
            os._exit(9)
        return calibrate(request, since)
    if isinstance(request, Compare):
        return compare(request, since)
    if plan_of(request.record)[0] in ("spoils", "trips"):
        said = "the record failed (wrong_result): an element is off"
        return Refusal(id=request.id, error=said, code="record_failed")
    plan, gain = plan_of(request.candidate)
    if plan.startswith("halts_"):
        halt(request, plan.removeprefix("halts_"), gain, since)
    if plan.startswith("held_"):
        hold(request, plan.removeprefix("held_"))
    if plan in ("die_once", "hang_once"):
        flag = Path(request.cache_dir) / f"{plan}-{plain(request)}"
        flag.parent.mkdir(parents=True, exist_ok=True)
        if not flag.exists():
            flag.touch()
            if plan == "hang_once":
                say(progress(request, 1.0))
                sys.stdin.read()
            os._exit(9)
    if plan == "die" or (plan == "die_confirming" and isinstance(request, Confirm)):
        os._exit(9)
    if plan == "loses_builder":
        said = "what builds the candidate was killed or hangs: the supervisor ended with code -9"
        return Refusal(id=request.id, error=said, code="builder_lost")
    if plan in ("refuse_once", "refuse_often"):
        marks = Path(request.cache_dir) / "refusals"
        marks.mkdir(parents=True, exist_ok=True)
        count = len(list(marks.iterdir()))
        if count < (1 if plan == "refuse_once" else 4):
            (marks / str(count)).touch()
            return Refusal(id=request.id, error="the nursery does not start")
    if plan == "refuse_late" and isinstance(request, Confirm):
        return Refusal(id=request.id, error="the anchor failed", code="anchor_failed")
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
        return wrong(request, since)
    if plan == "instant":
        return instant(request, since)
    return measure(request, 5.0 if plan in ("die_confirming", "refuse_late") else gain, since)


if __name__ == "__main__":
    print("scripted guard", file=sys.stderr, flush=True)
    for line in sys.stdin:
        if prepare_in(line.encode()) is None:
            say(answer(REQUEST.validate_json(line)))
