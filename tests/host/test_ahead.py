"""Building ahead, the dispatcher's side: who is sent to a busy guard, and that nothing else comes of it."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from host_places import judge_all, opened, planned, scripted_guard

from kernelarc_guard.prepare import Prepare
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.fleet_client import FleetClient
from kernelarc_mcp.host.verify import verify

_GUARD = """#!{python} -I
import signal, sys
signal.alarm(60)
sys.path[:0] = {paths!r}
from pathlib import Path
from typing import Any
from scripted_guard import REQUEST, answer, say
from kernelarc_guard.prepare import prepare_in
lines, waits = sys.stdin.buffer, True
for line in lines:
    request = REQUEST.validate_json(line)
    if request.op == "screen" and waits:
        with Path({log!r}).open("ab") as log:
            ahead, waits = lines.readline(), False
            assert prepare_in(ahead), ahead
            log.write(ahead)
    say(answer(request))
"""
_NATIVE = """extern "C" int run(void* x, void* y, void* z) { return 0; }
static const char plan[] = R"(
PLAN = 'wrong'
)";
"""


@pytest.fixture
def guard(folder: Path, tmp_path: Path) -> str:
    """Return a scripted guard that waits, in its first screen, for what it is sent beside it."""
    tests = Path(__file__).resolve().parents[1]
    paths = [str(tests.parent / "guard"), str(tests.parent), str(tests)]
    script = tmp_path / "guard"
    log = str(tmp_path / "ahead.jsonl")
    script.write_text(_GUARD.format(python=sys.executable, paths=paths, log=log))
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    "kernel",
    [
        {"source": _NATIVE, "filename": "kernel.cpp", "binding": "dlpack"},
        {"source": f"import triton\n{planned(3, 'wrong')}"},
    ],
)
def test_what_is_next_in_line_is_sent_to_a_busy_guard_and_nothing_is_written(
    folder: Path, tmp_path: Path, guard: str, kernel: dict[str, Any]
) -> None:
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "wrong"))
        host.submit("bob", source=planned(2, "wrong"))
        third = host.submit("ada", **kernel)
        judge_all(folder, guard)
        lines = (tmp_path / "ahead.jsonl").read_bytes().splitlines()
        sent = [Prepare.model_validate_json(line) for line in lines]
        # Other Python is only written down: that costs nothing worth doing ahead.
        assert [one.id for one in sent] == [third.ticket]
        kinds = [row.kind for row in host.campaign.journal.ledger.rows_after(0)]
        assert kinds.count("judging") == kinds.count("settled") == 3
        assert not [kind for kind in kinds if "prepar" in kind]
    assert verify(folder) == []


def test_a_fleet_is_sent_what_is_next_in_line_while_its_devices_judge(
    folder: Path, tmp_path: Path
) -> None:
    fleet = FleetClient([scripted_guard(tmp_path, "scripted_fleet"), "--devices", "1"])
    cache = folder / "cache"
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "held_screening:0"))
        ahead = host.submit("bob", source=_NATIVE, filename="kernel.cpp", binding="dlpack")

        async def judged() -> None:
            with anyio.fail_after(120):
                async with anyio.create_task_group() as group:
                    group.start_soon(Dispatcher(host, fleet).run_until_idle)
                    while not (cache / f"prepared-{ahead.ticket}").exists():
                        await anyio.sleep(0.02)
                    (cache / "go").touch()

        anyio.run(judged)
        assert [one.name for one in cache.glob("prepared-*")] == [f"prepared-{ahead.ticket}"]
        assert host.submission("bob", ahead.ticket).verdict == "REVERT"
    assert verify(folder) == []
