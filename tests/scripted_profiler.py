"""The scripted guard, with made-up answers to inquiries too; a PLAN in a source says which.

    die_profiling  the guard's process dies, holding the device
    refuse_profiling  the guard refuses, after it held the device for a second
    long_profiling it takes a thousand seconds, as it says
    no_counters    counters are not permitted
else a bandwidth-bound call of a few kernels with long names.
"""

import sys
import time
from pathlib import Path

from scripted_guard import answer, plan_of, reports, say

from kernelarc_guard.inquiries import (
    QUESTION,
    Count,
    Counted,
    Profiled,
    ProfileRequest,
    WorkCount,
)
from kernelarc_guard.prepare import prepare_in
from kernelarc_guard.profile_model import KernelFacts, MachineCode, Profile
from kernelarc_guard.protocol import (
    DEVICE_HELD,
    Compare,
    Lease,
    Progress,
    Refusal,
    Request,
    Result,
)
from kernelarc_guard.roofs import Roof, Roofs
from kernelarc_guard.rulers import traffic
from kernelarc_guard.timeline import timeline_of
from kernelarc_guard.timeline_model import Activity, Recorded

ROOF = Roof(per_second=1e9, source="a scripted data sheet", date="2026-01-01")


def recorded() -> Recorded:
    """Return a call of as many kernels with long names as a timeline tells of."""
    activities = [
        Activity(
            kind="kernel",
            name=f"void ns::a_kernel_with_a_name_of_some_length_{'x' * 40}<{number}>(float*)",
            begin=number * 600_000,
            end=number * 600_000 + 500_000,
            correlation=number,
            stream=number % 2,
            grid=(65_536, 128, 1),
            block=(1_024, 1, 1),
        )
        for number in range(14)
    ]
    return Recorded(began=0, returned=10, activities=activities)


def profiled(request: ProfileRequest, since: int) -> Profiled | Refusal:
    plan = plan_of(request.candidate)[0]
    told = Progress(id=request.id, stage="policy", done=1.0, of=5.0, message=DEVICE_HELD)
    print(told.model_dump_json(), flush=True)
    until = since + {"long_profiling": 10**12, "refuse_profiling": 10**9}.get(plan, 1)
    lease = Lease(device=request.device, from_ns=since, to_ns=max(until, time.monotonic_ns()))
    if plan == "die_profiling":
        sys.exit(9)
    if plan == "refuse_profiling":
        return Refusal(id=request.id, error="the solution does not build", lease=lease)
    kernels = [
        KernelFacts(
            name=f"a_kernel_with_a_name_of_some_length_{'x' * 40}<{number}>",
            microseconds=500.0 - number,
            dram_percent=81.0,
            compute_percent=20.0,
            occupancy_percent=60.0,
            occupancy_limit_percent=75.0,
            limiter="registers",
            registers=80,
            stalls={"long_scoreboard": 9.5, "wait": 1.0, "barrier": 0.5},
        )
        for number in range(9)
    ]
    notes = ["no counters: hardware counters are not permitted"] if plan == "no_counters" else []
    against = {f"counter {number}": "1 -> 2" for number in range(40)} if request.record else {}
    Path(request.reports).mkdir(parents=True)
    (Path(request.reports) / "metrics.csv").write_text("a table\n")
    return Profiled(
        id=request.id,
        profile=Profile(
            device="a scripted device",
            workload=request.workload,
            bottleneck="unknown" if notes else "bandwidth-bound",
            why="DRAM is at 81 % of its peak.",
            timeline=None if notes else timeline_of(recorded(), None),
            roofs={} if notes else {"dram": 0.81},
            kernels=[] if notes else kernels,
            kernels_us=None if notes else 4464.0,
            call_us=request.call_us,
            code=MachineCode(instructions=99, loads={"128": 4}),
            code_against_record=against,
            notes=[*notes, "another note " + "y" * 900],
        ),
        files=["metrics.csv"],
        lease=lease,
        seconds=0.1,
    )


def counted(request: Count, since: int) -> Counted:
    return Counted(
        id=request.id,
        at="2026-01-01T00:00:00+00:00",
        work=[
            WorkCount(
                uuid=workload.uuid,
                read_bytes=read,
                written_bytes=written,
                operations={},
                other_operations=0,
                how="as the script says",
            )
            for workload, (read, written) in zip(
                request.problem.workloads, traffic(request.problem), strict=True
            )
        ],
        roofs=Roofs(device="a scripted device", memory=ROOF, writes=ROOF, matrix={}),
        lease=Lease(device=request.device, from_ns=since, to_ns=time.monotonic_ns()),
    )


def judged(request: Request) -> Result | Refusal:
    """Answer as the scripted guard does; a comparison has its medians too."""
    found = answer(request)
    if isinstance(request, Compare) and isinstance(found, Result):
        medians = reports(request, plan_of(request.candidate)[1])
        return found.model_copy(update={"workloads": medians})
    return found


if __name__ == "__main__":
    for line in sys.stdin:
        if prepare_in(line.encode()) is not None:
            continue
        asked, now = QUESTION.validate_json(line), time.monotonic_ns()
        if isinstance(asked, Count):
            print(counted(asked, now).model_dump_json(), flush=True)
        elif isinstance(asked, ProfileRequest):
            print(profiled(asked, now).model_dump_json(), flush=True)
        else:
            say(judged(asked))
