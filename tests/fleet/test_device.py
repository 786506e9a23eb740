"""A device's actor without Ray: what it says about a request, and what it leaves to the guard."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from fleets import scripted_guard
from host_places import make_problem, planned

from kernelarc_guard.lease import boot_id
from kernelarc_guard.protocol import ANSWER, Calibrate, Refusal, Request, Result, Screen
from kernelarc_guard.solution import make_solution, reference_solution
from kernelarc_mcp.fleet import identity
from kernelarc_mcp.fleet.device import DeviceActor, Offer, Said
from kernelarc_mcp.fleet.versions import versions

pytestmark = pytest.mark.anyio
PROBLEM = make_problem()
RECORD = reference_solution(PROBLEM.definition)


@pytest.fixture
def anyio_backend() -> str:
    """Return Ray's own loop."""
    return "asyncio"


@pytest.fixture
async def actor(tmp_path: Path) -> AsyncIterator[DeviceActor]:
    """Yield a device called `far:cpu` whose guard obeys candidates."""
    offer = Offer(
        name="far:cpu",
        host="far",
        place="cpu",
        guard_python=scripted_guard(tmp_path, "far", model="a processor"),
        folder=tmp_path / "far",
        cache=tmp_path / "cache",
        environment={},
    )
    actor = DeviceActor(offer)
    yield actor
    await actor._guard.aclose()


def screen(plan: str) -> Screen:
    spec = {
        "languages": ["pytorch"],
        "entry_point": "k.py::run",
        "destination_passing_style": False,
    }
    sources = [{"path": "k.py", "content": planned(1, plan)}]
    candidate = make_solution({"name": "k", "definition": "add", "spec": spec, "sources": sources})
    return Screen(
        id="s1-screen.1",
        device="cuda:5",
        cache_dir="/nowhere",
        problem=PROBLEM,
        record=RECORD,
        candidate=candidate,
    )


async def asked(actor: DeviceActor, request: Request, key: str = "s/1") -> list[Said]:
    return [said async for said in actor.judge(key, request.model_dump_json().encode())]


async def test_it_says_what_it_is_and_with_what_its_guard_judges(actor: DeviceActor) -> None:
    known, busy = await actor.state()
    assert (known.name, known.kind, known.model, busy) == ("far:cpu", "cpu", "a processor", "")
    assert known.versions == versions() and known.toolchain["torch"] == "2.11.0"


async def test_a_guard_that_does_not_say_what_its_device_is_is_asked_no_longer_than_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, told = tmp_path / "silent", tmp_path / "pid"
    silent.write_text(f"#!/bin/sh\necho $$ > {told}.new; mv {told}.new {told}\nexec sleep 600\n")
    silent.chmod(0o755)
    monkeypatch.setattr(identity, "_SECONDS", 1.0)
    asked = DeviceActor(Offer("far:cpu", "far", "cpu", str(silent), tmp_path / "far", tmp_path, {}))
    for _ in range(60):
        with pytest.raises(TimeoutError):
            await asked.state()
        if told.exists():
            break
    assert not Path(f"/proc/{told.read_text().strip()}").exists()


async def test_an_answer_calls_the_device_as_it_was_asked_and_says_what_was_held(
    actor: DeviceActor,
) -> None:
    calibrate = Calibrate(
        id="calibrate.1", device="cuda:5", cache_dir="/nowhere", problem=PROBLEM, record=RECORD
    )
    (told,) = await asked(actor, calibrate)
    answer = ANSWER.validate_json(told.line)
    assert isinstance(answer, Result) and answer.calibration is not None
    assert answer.calibration.device == "cuda:5"
    assert answer.lease is not None and answer.lease.device == "cuda:5"
    assert (answer.lease.machine, answer.lease.unit) == (boot_id(), "far:cpu")
    given = screen("gain:20").model_copy(update={"calibration": answer.calibration})
    *signs, last = await asked(actor, given)
    screened = ANSWER.validate_json(last.line)
    assert signs and all(sign.kind == "progress" for sign in signs)
    # What the ledger holds it against is the calibration that was sent, to the last word.
    assert isinstance(screened, Result) and screened.calibration == answer.calibration


async def test_refusals_and_deaths_are_told_apart_and_the_next_request_is_judged(
    actor: DeviceActor,
) -> None:
    (refused,) = await asked(actor, screen("loses_builder"))
    answer = ANSWER.validate_json(refused.line)
    assert isinstance(answer, Refusal) and answer.code == "builder_lost"
    (died,) = await asked(actor, screen("die"))
    assert died.kind == "died" and "exit status 9" in died.why
    *_, last = await asked(actor, screen("wrong"))
    assert last.kind == "answer"


async def test_a_second_request_is_turned_away_and_the_first_can_be_taken_back(
    actor: DeviceActor,
) -> None:
    first: list[Said] = []

    async def ask() -> None:
        first.extend(await asked(actor, screen("hang_once"), "s/1"))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        while actor._work is None:
            await asyncio.sleep(0)
        (turned,) = await asked(actor, screen("wrong"), "t/1")
        assert turned.kind == "busy" and "another request" in turned.why
        await actor.cancel("t/1")  # not what it works on
        assert actor._work is not None and not actor._work.done()
        await actor.cancel("s/1")
    assert first[-1].why == "it was taken back"
    *_, last = await asked(actor, screen("wrong"), "t/2")
    assert last.kind == "answer"


async def test_an_interpreter_without_a_guard_is_named(tmp_path: Path) -> None:
    script = tmp_path / "none"
    script.write_text("#!/bin/sh\necho no module named torch >&2\nexit 1\n")
    script.chmod(0o755)
    actor = DeviceActor(Offer("x:cpu", "x", "cpu", str(script), tmp_path / "x", tmp_path, {}))
    with pytest.raises(RuntimeError, match="none does not know cpu: no module named torch"):
        await actor.state()
