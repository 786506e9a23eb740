"""Agents that join or leave, and calibrations asked for, while the guard is at work."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from forging import forge, rows_of
from host_places import judge_all, make_campaign_with_seed, opened, planned

from kernelarc_guard.protocol import Request, Result
from kernelarc_mcp.host.dispatcher import machine_id
from kernelarc_mcp.host.duties import Duties
from kernelarc_mcp.host.guard_client import GuardClient
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.report import read_report


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Return a list whose functions are called with each request after the guard answered it."""
    done: list[Any] = []
    ask = GuardClient.judge

    async def judge(self: GuardClient, request: Request, **how: Any) -> Result:
        result = await ask(self, request, **how)
        for step in done:
            step(request)
        return result

    monkeypatch.setattr(GuardClient, "judge", judge)
    yield done


@pytest.fixture
def joined(tmp_path: Path, guard: str, meanwhile: list[Any]) -> Path:
    """Return a campaign in which an agent joined during every single request to the guard."""
    folder = tmp_path / "campaign"
    make_campaign_with_seed(folder, canary_rate=0.5)
    number = count(1)
    with opened(folder) as host:
        for plan in ("fades:20", "gain:30", "gain:0", "wrong", "gain:40", "gain:1"):
            host.submit("ada", source=planned(next(number), plan))

        def join(request: Request) -> None:
            host.add_agent(f"late-{next(number)}", attempts=1)
            host.revoke("ada")

        meanwhile.append(join)
        judge_all(folder, guard)
        meanwhile.clear()
    return folder


def test_a_campaign_verifies_though_an_agent_joined_during_every_measurement(joined: Path) -> None:
    assert verify(joined) == []
    kinds = [row.kind for row in rows_of(joined)]
    for kind in ("calibrated", "baselined", "screened", "confirmed", "canary", "remeasured"):
        before = [kinds[at - 1] for at, found in enumerate(kinds) if found == kind]
        assert before and set(before) == {"agent_added"}, (kind, before)


def test_a_baseline_decided_with_another_stake_than_when_it_was_asked_is_named(
    joined: Path,
) -> None:
    (row,) = [row for row in rows_of(joined) if row.kind == "baselined"]
    asked = json.loads(row.body)["asked_after"]
    assert asked == row.seq - 2, "an agent joined in between"
    forge(joined, row.seq, {"asked_after": row.seq - 1})
    named = [found for found in verify(joined) if found.startswith(f"event row {row.seq}:")]
    assert len(named) == 1 and "stake 0.0001" in named[0] and "is recorded" in named[0], named
    assert "promising" not in named[0] and "detail" not in named[0], named
    forge(joined, row.seq, {"asked_after": row.seq})
    assert any("which comes later" in found for found in verify(joined))


def test_a_calibration_asked_for_while_another_runs_is_still_measured(
    tmp_path: Path, guard: str, meanwhile: list[Any]
) -> None:
    folder = tmp_path / "campaign"
    make_campaign_with_seed(folder)
    with opened(folder) as host:

        def ask(request: Request) -> None:
            meanwhile.clear()
            asked_for(host, 3, 4)

        meanwhile.append(ask)
        judge_all(folder, guard)
        board = host.board("ada")
        assert board.calibration is not None
        assert (board.calibration.nurseries, board.calibration.pairs) == (3, 12)
        assert board.calibration.toolchain["C++"] == "GCC 12.2.0"
    assert [row.kind for row in rows_of(folder)].count("calibrated") == 2
    assert verify(folder) == []


def test_everybody_is_told_what_the_device_is_doing_before_the_first_submission(
    tmp_path: Path, guard: str, meanwhile: list[Any]
) -> None:
    folder = tmp_path / "campaign"
    make_campaign_with_seed(folder)
    told: list[str] = []
    with opened(folder) as host:
        meanwhile.append(lambda request: told.extend(read_report(folder).activity))
        host.submit("ada", source=planned(1, "gain:0"))
        judge_all(folder, guard)
        assert told[0].startswith("The device's noise is being measured first")
        assert told[1].startswith("The reference is being measured as a line to beat: pair ")
        assert told[2].startswith("s001: timing, ")
        assert read_report(folder).activity == []


def asked_for(host: Host, nurseries: int, pairs: int) -> None:
    duties = Duties(host.campaign, machine_id(), str(host.folder / "cache"))
    duties.ask_for_calibration(nurseries, pairs)
