"""A real server process over standard input and output."""

import os
import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters
from server_campaigns import KERNEL, Place
from server_process import COMMAND, RawStdio, call
from serving import ERAS, Era, answer_of, refusal_of


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_optimises_over_stdio_as_the_agent_it_launched(
    place: Place, silent_guard: str, era: Era
) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=[*COMMAND[1:], "serve", str(place.folder), "--guard-python", silent_guard],
        env={**os.environ, "KERNELARC_AGENT": "bob"},
    )
    async with Client(server, mode=era) as client:
        brief = answer_of(await client.call_tool("get_brief", {}))
        assert brief["state"]["agent"] == "bob"
        submit = {"source": KERNEL, "summary": "x + x", "entry_point": "gone.py::run"}
        view = answer_of(await client.call_tool("submit_candidate", submit))
        assert view["reason"] == "envelope_bad_entry"
        assert "s999" in refusal_of(await client.call_tool("wait_submission", {"ticket": "s999"}))


def served_to(place: Place, guard: str, agent: str | None) -> subprocess.CompletedProcess[str]:
    """Serve an agent whose input has ended already, and wait for the server to end."""
    environment = {key: value for key, value in os.environ.items() if key != "KERNELARC_AGENT"}
    if agent is not None:
        environment["KERNELARC_AGENT"] = agent
    return subprocess.run(
        [*COMMAND, "serve", str(place.folder), "--guard-python", guard],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


def test_without_an_agent_the_server_refuses_in_one_line(place: Place, silent_guard: str) -> None:
    ended = served_to(place, silent_guard, None)
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.strip().splitlines()
    assert "KERNELARC_AGENT" in line


def test_an_agent_the_campaign_does_not_know_is_refused_in_one_line(
    place: Place, silent_guard: str
) -> None:
    ended = served_to(place, silent_guard, "nobody")
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.strip().splitlines()
    assert "'nobody'" in line and "ada, bob" in line


def test_a_stdio_server_says_when_it_starts_and_when_it_listens(
    place: Place, silent_guard: str
) -> None:
    ended = served_to(place, silent_guard, "bob")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.splitlines()[:2] == [
        f"Starting the server of {place.folder}",
        f"Serving {place.folder} to bob over stdio",
    ]


def test_bytes_that_are_not_utf8_are_answered_and_the_server_goes_on(
    place: Place, silent_guard: str
) -> None:
    server = RawStdio(place.folder, silent_guard, "ada")
    server.send_bytes(call(1, "get_brief", "{}"))
    assert not server.answer(1)["isError"]
    before = place.events()
    not_utf8 = call(2, "submit_candidate", '{"summary": "s", "source": "caf@"}')
    for identity, line in (
        (2, not_utf8.replace(b"@", b"\xe9")),
        (3, call(3, "submit_candidate", r'{"summary": "s", "source": "\ud800"}')),
    ):
        server.send_bytes(line)
        result = server.answer(identity)
        assert result["isError"]
        assert "`source` is not valid UTF-8" in result["content"][0]["text"]
    server.send_bytes(b"this is not JSON")
    server.send_bytes(call(4, "view_leaderboard", "{}"))
    assert not server.answer(4)["isError"]
    assert place.events() == before
    assert server.close() == 0


def test_a_server_whose_client_was_killed_ends_without_a_traceback(
    place: Place, silent_guard: str
) -> None:
    server = RawStdio(place.folder, silent_guard, "ada", stderr=subprocess.PIPE)
    server.send_bytes(call(1, "get_brief", "{}"))
    assert not server.answer(1)["isError"]
    stdin, stdout, stderr = server.process.stdin, server.process.stdout, server.process.stderr
    assert stdin is not None and stdout is not None and stderr is not None
    # Its end of both pipes, as the kernel closes them; there is an answer that nobody reads.
    stdout.close()
    server.send_bytes(call(2, "view_leaderboard", "{}"))
    stdin.close()
    assert server.process.wait(60) == 0
    assert b"Traceback" not in stderr.read()
    stderr.close()
