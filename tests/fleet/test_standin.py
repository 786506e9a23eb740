"""What a stand-in makes of a request; cluster, broker and actors are of this process."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
from host_places import make_problem

from kernelarc_guard.fleet_wire import FROM_FLEET, Hindrance, OnModel, Placed
from kernelarc_guard.protocol import Compare, Refusal
from kernelarc_guard.solution import reference_solution
from kernelarc_mcp.fleet.broker import Broker
from kernelarc_mcp.fleet.choice import Device
from kernelarc_mcp.fleet.device import Said
from kernelarc_mcp.fleet.versions import versions

pytest.importorskip("ray", reason="Ray is not installed: pip install 'kernelarc-mcp[ray]'")

from kernelarc_mcp.fleet.link import Address, Link
from kernelarc_mcp.fleet.session import Session
from kernelarc_mcp.fleet.standin import LOST, StandIn

TOOLS = {"torch": "2.13.0"}
PROBLEM = make_problem()
SEED = reference_solution(PROBLEM.definition)


def test_a_stand_in_says_why_it_waits_and_gives_up_and_ends_when_nobody_asks_any_more() -> None:
    program = "import sys; from kernelarc_mcp.fleet import standin; {}; standin.main()"
    with socket.socket() as nobody:  # bound, so that nobody else listens there meanwhile
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        first, second = (
            subprocess.Popen(
                [sys.executable, "-I", "-c", program.format(how)]
                + ["--address", address, "--campaign", "c", "--kind", "cpu"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for how in ("pass", "standin.JOIN_SECONDS = 0")
        )
        why = f"the Ray head at {address} does not answer"
        assert first.stdout is not None
        assert FROM_FLEET.validate_json(first.stdout.readline()) == Hindrance(why=why)
        said, error = first.communicate(timeout=60)
        assert (first.returncode, said, error) == (0, b"", b"")
        said, error = second.communicate(timeout=60)
    assert second.returncode == LOST and error.decode().strip() == f"stand-in: {why}"
    assert {FROM_FLEET.validate_json(line) for line in said.splitlines()} == {Hindrance(why=why)}


def test_a_port_at_which_something_else_than_a_head_listens_is_told_as_that() -> None:
    program = "from kernelarc_mcp.fleet import standin; standin.LATE_SECONDS = 0.1; standin.main()"
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with subprocess.Popen(
            [sys.executable, "-I", "-c", program, "--address", address]
            + ["--campaign", "c", "--kind", "cpu"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as standin:
            assert standin.stdout is not None
            told = FROM_FLEET.validate_json(standin.stdout.readline())
            standin.kill()
    assert isinstance(told, Hindrance)
    assert told.why.startswith(f"somebody listens at {address}, but did not let this host into")


class Near(Link):
    """A link to a broker of this process."""

    def __init__(self) -> None:
        super().__init__(Address("x", 1))
        self.broker = Broker()

    async def call(self, method: str, *arguments: object, seconds: float = 10.0) -> Any:
        """Call it at once."""
        return await getattr(self.broker, method)(*arguments)


class Actor:
    """An actor that answers every request with a refusal, which is the last it says."""

    def __init__(self) -> None:
        self.asked: list[Compare] = []

    @property
    def judge(self) -> "Actor":
        return self

    def options(self, **options: str) -> "Actor":
        return self

    def remote(self, key: str, line: bytes, handed: object) -> AsyncIterator[Awaitable[Said]]:
        return self._says(line)

    async def _says(self, line: bytes) -> AsyncIterator[Awaitable[Said]]:
        asked = Compare.model_validate_json(line)
        self.asked.append(asked)
        refusal = Refusal(id=asked.id, error="the record failed", code="record_failed")
        said: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        said.set_result(Said("refusal", refusal.model_dump_json().encode()))
        yield said


class Voice:
    """What a stand-in says, kept."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.answered = asyncio.Event()

    def line(self, line: bytes) -> None:
        self.said.append(FROM_FLEET.validate_json(line))
        if isinstance(self.said[-1], Refusal):
            self.answered.set()


def test_a_comparison_for_another_model_is_placed_on_such_a_device_whatever_its_tools() -> None:
    async def said() -> list[object]:
        link, voice, actor = Near(), Voice(), Actor()
        session = Session(link, lambda told: None, campaign="c", kind="cuda", model="H200")
        session.learn(TOOLS)
        await session.enter()
        for name, model, torch in (("a", "H200", "2.13.0"), ("b", "H100", "2.9.0")):
            device = Device(name, "cuda", model, f"host-{name}", versions(), {"torch": torch})
            await link.broker.beat(device, "", name, 1)
        standin = StandIn(session, voice)  # type: ignore[arg-type]
        standin._actors._known["b"] = actor
        request = Compare(id="x", cache_dir="c", problem=PROBLEM, record=SEED, candidate=SEED)
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        lines.put_nowait(OnModel(model="H100", request=request).model_dump_json().encode())
        serving = asyncio.create_task(standin.serve(lines))
        await asyncio.wait_for(voice.answered.wait(), 60)
        lines.put_nowait(b"")
        await asyncio.wait_for(serving, 60)
        assert actor.asked == [request]
        assert link.broker._used == {}, "it has no part in its campaign's share"
        return voice.said

    placed, answer = asyncio.run(said())
    assert placed == Placed(id="x", device="b", host="host-b")
    assert isinstance(answer, Refusal) and answer.code == "record_failed"
