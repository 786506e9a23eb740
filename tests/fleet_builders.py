"""A host of a test's fleet that only builds: it fills caches of who judges, dies, and turns up with other tools."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from fleets import Fleet, parent_of

from kernelarc_guard.entries import HANDED, NATIVE
from kernelarc_guard.fleet_wire import FleetDevice
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.protocol import Result, Screen
from kernelarc_guard.solution import Solution, make_solution
from kernelarc_mcp.host.fleet_client import FleetClient

DEADLINE = 120.0
_PYTHON = """#!{real} -I
import json, os, sys, time
from pathlib import Path
folder = Path({folder!r})
if "kernelarc_guard.identity" in sys.argv and (folder / "odd").exists():
    from kernelarc_guard.identity import identity
    told = identity(sys.argv[-1])
    told["toolchain"]["C++"] = "GCC 4.8.1"
    print(json.dumps(told))
    sys.exit()
if "kernelarc_guard.build_slot" in sys.argv:
    (folder / "new").write_text(str(os.getpid()))
    (folder / "new").rename(folder / "slot")
    if (folder / "hangs").exists():
        sys.stdin.readline()
        (folder / "began").touch()
        sys.stdin.readline()
        sys.exit()
os.execv({real!r}, [{real!r}, *sys.argv[1:]])
"""
_ADD = """#include <dlpack/dlpack.h>
static const int number = NUMBER;
extern "C" int run(const DLTensor* x, const DLTensor* y, DLTensor* z) {
  const float* a = static_cast<const float*>(x->data);
  const float* b = static_cast<const float*>(y->data);
  float* c = static_cast<float*>(z->data);
  for (int64_t i = 0; i < x->shape[0]; ++i) c[i] = a[i] + b[i];
  return number < 0;
}
"""


def compiled(number: int) -> Solution:
    """Return a right solution in C++ that no other number shares."""
    spec = {"languages": ["cpp"], "entry_point": "k.cpp::run", "binding": "dlpack"}
    sources = [{"path": "k.cpp", "content": _ADD.replace("NUMBER", str(number))}]
    return make_solution({"name": "k", "definition": "add", "spec": spec, "sources": sources})


async def a_host_that_only_builds_fills_the_cache_of_who_judges_and_holds_nobody_up(
    fleet: Fleet, client: FleetClient, shared: dict[str, Any], cache: Path
) -> None:
    """Build ahead on a real slot; `client`'s one device, whose guard has its builds in `cache`, is real too."""
    folder = fleet.folder / "builds"
    folder.mkdir()
    script = folder / "python"
    script.write_text(_PYTHON.format(real=sys.executable, folder=str(folder)))
    script.chmod(0o755)
    given = ["--device", "none", "--builders", "1", "--guard-python", str(script)]
    fleet.add("builds", *given, "--no-node", "--namespace", "real")
    await until(lambda: states(client.builders) == ["ready"])
    assert "1 device on 1 host, 1 build slot on 1 host" in client.words

    result = await built_ahead_and_judged(client, shared, 1, (folder / "slot").exists)
    assert result.stages["correctness"].state == "passed"
    assert handed(cache) == ["builds:builder0"], "compiled nowhere but there"

    # A builder whose process is killed in the middle of a build: its host is one of those that die.
    (folder / "hangs").touch()
    os.kill(int((folder / "slot").read_text()), signal.SIGKILL)
    async with anyio.create_task_group() as group:
        group.start_soon(killed_when_it_builds, folder)
        result = await built_ahead_and_judged(client, shared, 2, (folder / "began").exists)
    assert result.stages["correctness"].state == "passed"
    assert handed(cache) == ["", "builds:builder0"], "the guard has built it itself"

    # Ray starts the actor again; what builds there now is another compiler.
    await until(lambda: states(client.builders) == ["refused"])
    (told,) = client.builders
    assert told.why.startswith("C++ is GCC 4.8.1 there; the campaign builds with GCC ")
    assert "no build slots; build slots of builds are refused: C++ is GCC 4.8.1" in client.words
    result = await built_ahead_and_judged(client, shared, 3, lambda: True)
    assert handed(cache) == ["", "", "builds:builder0"]


async def killed_when_it_builds(folder: Path) -> None:
    """Kill the actor behind a slot as soon as its process has an order; the next has other tools."""
    await until((folder / "began").exists)
    (folder / "odd").touch()
    os.kill(parent_of(int((folder / "slot").read_text())), signal.SIGKILL)


async def built_ahead_and_judged(
    client: FleetClient, shared: dict[str, Any], number: int, ready: Callable[[], bool]
) -> Result:
    """Judge a candidate that was sent to be built beside another judgement."""
    candidate = compiled(number)
    found: list[Result] = []

    async def judge(subject: str, asked: Solution) -> None:
        request = Screen(id=f"{subject}-screen", candidate=asked, correctness_only=True, **shared)
        found.append(await client.judge(request, deadline=DEADLINE))

    async with anyio.create_task_group() as group:
        group.start_soon(judge, f"b{number}", shared["record"])
        await until(lambda: client.busy)
        keys = ("cache_dir", "schedule")
        definition = shared["problem"].definition
        prepare = Prepare(
            id=f"c{number}",
            definition=definition,
            candidate=candidate,
            **{key: shared[key] for key in keys},
        )
        assert await client.prepare(prepare)
        await until(ready)
        await judge(f"c{number}", candidate)
    return next(one for one in found if one.id == f"c{number}-screen")


def handed(cache: Path) -> list[str]:
    """Return who made each native build in a cache; an empty word for what was built there."""
    entries = [one / HANDED for one in (cache / NATIVE).iterdir()]
    return sorted(json.loads(one.read_text())["by"] if one.exists() else "" for one in entries)


def states(devices: list[FleetDevice]) -> list[str]:
    """Return in which states devices are."""
    return [one.state for one in devices]


async def until(holds: Callable[[], bool]) -> None:
    """Return as soon as something holds."""
    with anyio.fail_after(DEADLINE):
        while not holds():
            await anyio.sleep(0.02)
