"""One fleet over the GPUs of one host: throughput with 1, 2, 4 and 8 of them, agreement, and interference.

    python -m benchmarks.fleet_gpus --out FOLDER --gpus 1 2 4 8 --seconds 300
    python -m benchmarks.fleet_gpus --out FOLDER --devices 2 --seconds 60       # CPU devices, scripted guards: a trial

For each number of GPUs and each problem a campaign of --agents scripted agents (clients/tuner.py) runs behind
`serve --executor ray://` for --seconds: verdicts an hour, share of the time that each GPU was held, waits in the
queue and builds a second, from the ledger; `verify` afterwards. Then, over all GPUs: the seed is calibrated on
every GPU alone and on all at once, which shows what busy neighbours do to the noise and to the smallest gain that
could be proven. Appends to FOLDER/fleet_gpus.jsonl, a line for each run; exit status 1 where one does not verify.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

import anyio

_TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(_TESTS)]

from fleets import Fleet, fleet_in, scripted_guard, wait_until  # noqa: E402

from kernelarc_guard.devices import default_parameters  # noqa: E402
from kernelarc_guard.problem import Problem, read_problem  # noqa: E402
from kernelarc_guard.protocol import Calibrate, Result  # noqa: E402
from kernelarc_guard.solution import reference_solution, seed_solution  # noqa: E402
from kernelarc_mcp.cli.children import Child  # noqa: E402
from kernelarc_mcp.cli.new import create_campaign, settings_from  # noqa: E402
from kernelarc_mcp.data import data_dir  # noqa: E402
from kernelarc_mcp.host.fleet_client import FleetClient  # noqa: E402
from kernelarc_mcp.host.ledger import Ledger  # noqa: E402
from kernelarc_mcp.host.verify import verify  # noqa: E402

_URL: Final = re.compile(r"http://\S+/mcp\b")
_START_SECONDS: Final = 300.0
_CALIBRATION_SECONDS: Final = 1200.0


def problem_of(name: str, on_cpu: bool) -> Problem:
    """Return a problem of the library with the workloads of the device."""
    return read_problem(
        data_dir("kernels") / name, "workload.jsonl" if on_cpu else "workload.gpu.jsonl"
    )


def start(fleet: Fleet, asked: argparse.Namespace, count: int) -> None:
    """Start a head, and what offers `count` devices."""
    if asked.devices:
        for number in range(count):
            guard = scripted_guard(fleet.folder, f"d{number}", pause=0.5)
            fleet.add(f"d{number}", "--device", "cpu", "--guard-python", guard, head=number == 0)
            fleet.wait_offered(f"d{number}")
        return
    chosen = [word for number in range(count) for word in ("--device", f"cuda:{number}")]
    worker = fleet.add("host", *chosen, "--guard-python", sys.executable, head=True)
    wait_until("GPUs are offered", lambda: worker.said("offered: ") == count, _START_SECONDS)


def campaign(fleet: Fleet, asked: argparse.Namespace, name: str, count: int) -> dict[str, Any]:
    """Run one campaign on the fleet; return what its ledger tells."""
    on_cpu, folder = bool(asked.devices), fleet.folder / f"{name}-{count}"
    problem = problem_of(name, on_cpu)
    agents = [f"agent-{number + 1}" for number in range(asked.agents)]
    settings = settings_from(
        name=folder.name,
        problem=problem.definition.name,
        device="cpu" if on_cpu else "cuda:0",
        agents=agents,
        attempts=1000 * len(agents),
        in_flight=asked.in_flight,
    )
    tokens = create_campaign(folder, problem, settings)
    serve = [sys.executable, "-m", "kernelarc_mcp", "serve", str(folder), "--rate", "0"]
    serve += ["--http", "127.0.0.1:0", "--executor", f"ray://{fleet.address}"]
    tuner = [sys.executable, str(data_dir("clients") / "tuner.py")]
    with ExitStack() as stack:
        server = stack.enter_context(Child("server", serve, folder / "serve.log"))
        wait_until("the server listens", lambda: bool(_URL.search(server.written())), 120.0)
        found = _URL.search(server.written())
        assert found is not None
        for number, (agent, token) in enumerate(tokens):
            command = [*tuner, "--url", found.group(), "--name", agent, "--seed", str(number + 1)]
            log = folder / f"{agent}.log"
            stack.enter_context(Child(agent, command, log, KERNELARC_TOKEN=token))
        wait_until("a first verdict", lambda: bool(rows(folder, "settled")), _START_SECONDS)
        time.sleep(asked.seconds)
    told = account(folder)
    return {"problem": name, "devices": count, "verify": verify(folder), **told}


def rows(folder: Path, kind: str = "") -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return kind, submission, time and body of a ledger's rows."""
    ledger = Ledger.open_read_only(folder)
    try:
        told = [(r.kind, r.submission, r.at, r.body) for r in ledger.rows_after(0)]
    finally:
        ledger.close()
    return [(k, s, at, json.loads(body)) for k, s, at, body in told if kind in ("", k)]


def account(folder: Path) -> dict[str, Any]:
    """Return rates, shares and waits between the first and the last verdict."""
    all_rows = rows(folder)
    at = {id(row): datetime.fromisoformat(row[2]).timestamp() for row in all_rows}
    ends = [at[id(row)] for row in all_rows if row[0] == "settled"]
    if len(ends) < 2:
        return {"verdicts": len(ends)}
    begin, end = min(ends), max(ends)
    inside = [row for row in all_rows if begin < at[id(row)] <= end]
    results = [body["result"] for _, _, _, body in inside if body.get("result")]
    held: dict[str, float] = {}
    for lease in (result["lease"] for result in results if result.get("lease")):
        unit = lease.get("unit") or lease["device"]
        held[unit] = held.get(unit, 0.0) + (lease["to_ns"] - lease["from_ns"]) / 1e9
    built = sum("build" in result.get("stages", {}) for result in results)
    asked = {row[1]: at[id(row)] for row in all_rows if row[0] == "submitted"}
    waits = [at[id(row)] - asked[row[1]] for row in inside if row[0] == "judging"]
    seconds = end - begin
    return {
        "verdicts": len(ends) - 1,
        "seconds": round(seconds, 1),
        "verdicts an hour": round(3600 * (len(ends) - 1) / seconds, 1),
        "share held": {unit: round(own / seconds, 3) for unit, own in sorted(held.items())},
        "builds a second": round(built / seconds, 3),
        "queue wait, median and largest, s": [round(median(waits), 2), round(max(waits), 2)]
        if waits
        else [],
        "kept": sum(row[0] == "settled" and row[3]["verdict"] == "KEEP" for row in inside),
        "cut": [row[3]["cause"] for row in all_rows if row[0] == "interrupted"],
    }


async def interference(fleet: Fleet, asked: argparse.Namespace, count: int) -> dict[str, Any]:
    """Calibrate the seed on one GPU at a time and then on all at once."""
    kind, device = ("cpu", "cpu") if asked.devices else ("cuda", "cuda:0")
    problem = problem_of(asked.problems[0], bool(asked.devices))
    definition = problem.definition
    seed = seed_solution(Path(problem.folder or "."), definition, device)
    told: dict[str, list[Any]] = {"alone": [], "beside": []}

    async def calibrate(client: FleetClient, how: str, number: int) -> None:
        request = Calibrate(
            id=f"{how}{number}",
            device=device,
            cache_dir="cache",
            problem=problem,
            record=seed or reference_solution(definition),
            pairs=asked.pairs,
            nurseries=asked.nurseries,
            parameters=default_parameters(device),
        )
        told[how].append(noise(await client.judge(request, deadline=_CALIBRATION_SECONDS)))

    command = fleet.standin(kind=kind, campaign="interference")
    async with FleetClient(command, fleet.folder / "standin.log") as client:
        while await client.wait_lanes(0) < count:
            await anyio.sleep(0.2)
        for number in range(count):
            await calibrate(client, "alone", number)
        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(calibrate, client, "beside", number)
    summary = {
        how: {
            "resolution, %": round(mean(one["resolution"] or 0.0 for one in of), 3),
            "noise of a pair, %": round(mean(one["sd"] for one in of), 3),
        }
        for how, of in told.items()
    }
    return {"interference": summary, "each": told, "devices": count}


def noise(result: Result) -> dict[str, Any]:
    """Return what a calibration says of noise, and where it was measured."""
    found = result.calibration
    assert found is not None and result.lease is not None
    return {"unit": result.lease.unit, "sd": found.sd_confirm, "resolution": found.resolution}


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--devices", type=int, default=0, help="CPU devices instead of GPUs")
    parser.add_argument("--problems", nargs="+", default=["rmsnorm", "matmul_residual"])
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--in-flight", type=int, default=2, help="submissions of an agent")
    parser.add_argument("--seconds", type=float, default=240.0, help="after the first verdict")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--nurseries", type=int, default=1)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    present = asked.devices or len(
        subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines()
    )
    counts = sorted({n for n in asked.gpus if n <= present} | {present} & {asked.devices})
    wrong = False
    for count in counts:
        folder = asked.out / f"fleet-{count}-{os.getpid()}"
        folder.mkdir()
        with fleet_in(folder) as fleet:
            start(fleet, asked, count)
            for name in asked.problems:
                told = campaign(fleet, asked, name, count)
                wrong = write(asked.out, told) or wrong
            if count == counts[-1]:
                write(asked.out, anyio.run(interference, fleet, asked, count))
    sys.exit(wrong)


def write(folder: Path, told: dict[str, Any]) -> bool:
    """Keep and print one result; say whether its ledger does not verify."""
    line = json.dumps(told)
    with (folder / "fleet_gpus.jsonl").open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)
    return bool(told.get("verify"))


if __name__ == "__main__":
    main()
