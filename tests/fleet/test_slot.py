"""A build slot's actor without Ray: what it says of an order, and that nothing is left of one taken back."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from host_places import make_problem

from kernelarc_guard.prepare import BuildOrder, Prepare
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.solution import Solution, make_solution
from kernelarc_mcp.fleet import slot
from kernelarc_mcp.fleet.slot import BuilderActor, BuildSaid, SlotOffer

pytestmark = pytest.mark.anyio
_BUILDS = """#!{python} -I
import json, os, sys
from pathlib import Path
Path({pid!r}).write_text(str(os.getpid()))
for line in sys.stdin:
    order = json.loads(line)
    cache, name = Path(order["request"]["cache_dir"]), order["request"]["candidate"]["name"]
    key = "ab" * 32
    if name == "hangs":
        sys.stdin.read()
    if name == "dies":
        os._exit(3)
    entry = cache / "native" / key
    entry.mkdir(parents=True, exist_ok=True)
    (entry / "messages.json").write_text("[]")
    (entry / "kernel.so").write_bytes(b"x" * ({most} + 1 if name == "large" else 10))
    why = "zero: not declared" if name == "wrong" else ""
    print(json.dumps({{"key": "" if why else key, "why": why, "seconds": 0.5}}), flush=True)
"""


@pytest.fixture
def anyio_backend() -> str:
    """Return Ray's own loop."""
    return "asyncio"


@pytest.fixture
async def actor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BuilderActor]:
    """Yield a slot whose process does what the name of a candidate says."""
    monkeypatch.setattr("kernelarc_guard.entries.MOST_HANDED", 1000)
    script = tmp_path / "python"
    pid = str(tmp_path / "pid")
    script.write_text(_BUILDS.format(python=sys.executable, pid=pid, most=1000))
    script.chmod(0o755)
    made = BuilderActor(SlotOffer("b:builder0", "b", str(script), tmp_path / "builders", {}))
    yield made
    await made._process.end()


def candidate(name: str) -> Solution:
    spec = {"languages": ["cpp"], "entry_point": "k.cpp::run", "binding": "dlpack"}
    sources = [{"path": "k.cpp", "content": "// nothing"}]
    return make_solution({"name": name, "definition": "add", "spec": spec, "sources": sources})


async def ordered(actor: BuilderActor, name: str, key: str = "s/1") -> BuildSaid:
    """Return the last that is said of an order."""
    request = Prepare(
        id="s1",
        cache_dir="/nowhere/on/this/host",
        schedule=Schedule(build_seconds=30.0),
        definition=make_problem().definition,
        candidate=candidate(name),
    )
    *signs, last = [said async for said in actor.build(key, BuildOrder(request=request))]
    assert all(sign == BuildSaid("sign") for sign in signs)
    return last


async def test_what_it_built_is_handed_over_and_what_it_did_not_is_said(
    actor: BuilderActor,
) -> None:
    said = await ordered(actor, "right")
    assert said.kind == "built" and said.artefact is not None
    assert (said.artefact.binary, said.artefact.by) == (b"x" * 10, "b:builder0")
    assert said.artefact.solution == candidate("right").digest
    for name, why in (("wrong", "zero: not declared"), ("large", "more than"), ("dies", "ended")):
        said = await ordered(actor, name)
        assert (said.kind, said.artefact) == ("failed", None) and why in said.why
    assert (await ordered(actor, "right")).kind == "built", "another process has taken its place"


async def test_an_order_that_is_taken_back_or_hangs_is_ended_and_the_next_is_built(
    actor: BuilderActor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = asyncio.create_task(ordered(actor, "hangs"))
    async with asyncio.timeout(60):
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
    assert (await ordered(actor, "right", "t/1")).kind == "busy"
    await actor.cancel("t/1")  # not what it works on
    assert not hanging.done()
    await actor.cancel("s/1")
    assert (await hanging).why == "it was taken back"
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
    monkeypatch.setattr(slot, "_GRACE_SECONDS", -29.9)
    assert "says nothing any more" in (await ordered(actor, "hangs")).why
    monkeypatch.undo()
    assert (await ordered(actor, "right")).kind == "built"


async def test_an_interpreter_that_does_not_start_is_told_as_the_hosts_fault(
    tmp_path: Path,
) -> None:
    nowhere = str(tmp_path / "none")
    actor = BuilderActor(SlotOffer("b:builder0", "b", nowhere, tmp_path / "builders", {}))
    assert (await ordered(actor, "right")).kind == "broken"
