"""A small problem, campaigns on it in real directories, and a scripted guard for them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from kernelarc_guard.problem import Definition, Problem, TensorSpec, Workload
from kernelarc_guard.solution import make_solution
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings

REFERENCE = "import torch\n\n\ndef run(x, y):\n    return x + y\n"


def make_problem() -> Problem:
    return Problem(
        definition=Definition.model_validate(
            {
                "name": "add",
                "axes": {"n": {"type": "var"}},
                "inputs": {
                    "x": {"shape": ["n"], "dtype": "float32"},
                    "y": {"shape": ["n"], "dtype": "float32"},
                },
                "outputs": {"z": TensorSpec(shape=["n"], dtype="float32")},
                "reference": REFERENCE,
                "op_type": "elementwise",
            }
        ),
        workloads=[Workload(uuid="w8", axes={"n": 8}), Workload(uuid="w9", axes={"n": 9})],
    )


def make_settings(**changes: object) -> CampaignSettings:
    values = {"name": "test", "problem": "add", "agents": ["ada", "bob"], "attempts": 20}
    return CampaignSettings.model_validate(values | changes)


def make_campaign(folder: Path, **changes: object) -> list[tuple[str, str]]:
    return Host.create(folder, make_settings(**changes), make_problem(), None)


def make_campaign_with_seed(folder: Path, **changes: object) -> list[tuple[str, str]]:
    """Make a campaign whose seed is not the reference, which is then judged as a line to beat."""
    spec = {
        "languages": ["pytorch"],
        "entry_point": "slow.py::run",
        "destination_passing_style": False,
    }
    sources = [{"path": "slow.py", "content": kernel(1)}]
    seed = make_solution({"name": "slow", "definition": "add", "spec": spec, "sources": sources})
    return Host.create(folder, make_settings(**changes), make_problem(), seed)


def kernel(number: int, body: str = "x + y") -> str:
    """Return a source that no other number shares."""
    return f"import torch\n\n\ndef run(x, y):\n    scale_{number} = {number}\n    return {body}\n"


def planned(number: int, plan: str) -> str:
    """Return a source that tells the scripted guard what to do with it, unlike any other number's."""
    return kernel(number) + f"\n\nPLAN = {plan!r}\n"


@contextmanager
def opened(folder: Path) -> Iterator[Host]:
    """Open a campaign whose agents have all registered."""
    host = Host.open(folder)
    try:
        for agent in host.agents():
            host.register(agent)
        yield host
    finally:
        host.close()


def judge_all(folder: Path, guard: str) -> None:
    """Judge all that is queued, in this process."""
    host = Host.open(folder)
    try:
        anyio.run(Dispatcher(host, guard).run_until_idle)
    finally:
        host.close()


def silent_guard(folder: Path) -> str:
    """Return a guard interpreter that reads its requests and never answers: all stays queued."""
    script = folder / "silent-guard"
    script.write_text("#!/bin/sh\nexec cat > /dev/null\n")
    script.chmod(0o755)
    return str(script)


def scripted_guard(folder: Path, program: str = "scripted_guard") -> str:
    """Return an executable that takes the place of the guard's interpreter.

    It speaks the guard's protocol, runs the real decision rule on made-up times and obeys the
    PLAN in a candidate's source; see scripted_guard.py. `scripted_profiler` answers inquiries too.
    """
    script = folder / program
    tests = Path(__file__).resolve().parent
    lines = [
        f"#!{sys.executable} -I",
        "import runpy, sys",
        f"sys.path[:0] = {[str(tests.parent / 'guard'), str(tests.parent), str(tests)]!r}",
        f"runpy.run_path({str(tests / f'{program}.py')!r}, run_name='__main__')",
    ]
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o755)
    return str(script)
