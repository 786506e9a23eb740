"""Records on models other than the campaign's own: measured beside all else, and nothing decided."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
import scripted_guard as script
from forging import forge, row_of, rows_of
from host_places import judge_all, make_campaign, make_settings, opened, planned, scripted_guard
from in_process import InProcess
from pydantic import ValidationError

from kernelarc_guard.fleet_wire import Placed
from kernelarc_guard.protocol import Compare, Result
from kernelarc_mcp.cli.summary import summary
from kernelarc_mcp.dashboard.glance import Followed, glance
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.fleet_client import FleetClient
from kernelarc_mcp.host.guard_client import DeviceLost, GuardDied, GuardError
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.judging import Executor
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.report import read_report
from kernelarc_mcp.reporting.document import read_document
from kernelarc_mcp.reporting.writing import html, markdown
from kernelarc_mcp.views import OtherModelView

MODELS = {"device_model": "scripted", "extra_models": ["other"], "canary_rate": 0.0}


class Reaching(InProcess):
    """An executor of one lane that reaches a device of the model `other`, too."""

    def __init__(self, *happens: GuardError) -> None:
        """What happens there comes first; then it answers as soon as `go` is set."""
        super().__init__(1)
        self.let()
        self.happens = list(happens)
        self.began, self.go = anyio.Event(), anyio.Event()

    def reaches(self, model: str) -> bool:
        return model == "other"

    async def judge_on(
        self,
        model: str,
        request: Compare,
        *,
        deadline: float,
        on_placed: Callable[[Placed], None],
    ) -> Result:
        assert request.checked, "nobody asked on such a device whether it is right"
        on_placed(Placed(id=request.id, device="far:gpu0", host="far"))
        if self.happens:
            raise self.happens.pop(0)
        self.began.set()
        await self.go.wait()
        result = await self.judge(request, deadline=deadline)
        if script.plan_of(request.candidate)[0] == "narrow":
            result = script.wrong(request, 0)
        assert result.lease is not None
        return result.model_copy(update={"lease": result.lease.model_copy(update={"unit": "far"})})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a campaign whose records are owed to the extra board of the model `other`."""
    make_campaign(tmp_path / "campaign", **MODELS)
    return tmp_path / "campaign"


def dispatch(host: Host, executor: Executor, until: str = "") -> None:
    """Judge until idle; what is measured elsewhere goes on once a submission of ada's has its verdict."""

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(Dispatcher(host, executor, retry_seconds=0.02).run_until_idle)
            if isinstance(executor, Reaching):
                with anyio.fail_after(60):
                    while until and host.submission("ada", until).state != "done":
                        await anyio.sleep(0.01)
                executor.go.set()

    anyio.run(both)


async def cut_off(host: Host) -> None:
    """Stop a dispatcher while something is measured elsewhere."""
    executor = Reaching()
    async with anyio.create_task_group() as group:
        group.start_soon(Dispatcher(host, executor).run_until_idle)
        with anyio.fail_after(60):
            await executor.began.wait()
        group.cancel_scope.cancel()


def board(host: Host) -> OtherModelView:
    (only,) = host.board().other_models
    return only


def test_a_record_is_measured_on_another_model_while_the_campaign_goes_on(folder: Path) -> None:
    with opened(folder) as host:
        assert "No record yet" in board(host).words
        host.submit("ada", source=planned(1, "gain:20"))
        host.submit("ada", source=planned(2, "gain:-20"))
        dispatch(host, Reaching(), until="s002")
        row = row_of(folder, "extra_measured")
        body = json.loads(row.body)
        assert row.seq > row_of(folder, "settled", "s002").seq, "nothing waited for it"
        assert (body["record"], body["model"], body["device"]) == ("s001", "other", "far:gpu0")
        assert body["result"]["lease"]["unit"] == "far" and len(body["result"]["pairs"]) == 14
        ratio = body["over_seed"]
        assert ratio["lower"] < math.exp(0.2) < ratio["upper"]
        with host.campaign.journal.reading() as state:
            leases = [
                json.loads(one.body)["result"]["lease"]
                for one in rows_of(folder)
                if one.kind in ("screened", "confirmed")
            ]
            assert state.device_ns == sum(one["to_ns"] - one["from_ns"] for one in leases)
            assert sum(state.wealth.values()) == pytest.approx(0.01, rel=1e-9)
            (shown,) = glance(host.campaign, state, Followed.of(host.campaign)).other_models
        assert shown == board(host)
        assert shown.words == "1 of 1 record measured, fastest s001 with 1.221x the seed."
        assert [one.record for one in shown.rows] == ["s001"] and shown.owed == 0
    assert verify(folder) == []
    document = read_document(folder, "0")
    for text in (html(document), markdown(document)):
        assert "On other models" in text and "far:gpu0" in text and shown.words in text
    said = [str(one) for one in summary(read_report(folder)).renderables]
    assert f"On other: {shown.words}" in said


def test_what_is_wrong_or_cannot_be_judged_there_is_said_and_stays_the_record(folder: Path) -> None:
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "narrow:20"))
        dispatch(host, Reaching())
        host.submit("ada", source=planned(2, "gain:20"))
        dispatch(host, Reaching(*[GuardDied("its process ended" + " again" * 40)] * 3))
        assert host.board().record.submission == "s002"
        views = {one.record: one for one in read_report(folder).other_models[0].rows}
        assert (views["s001"].reason, views["s001"].over_seed) == ("wrong_result", None)
        assert "the guard died" in views["s002"].detail and views["s002"].over_seed is None
        assert board(host).rows[0].detail.endswith(" [...]"), "the board has room for all"
        assert board(host).words == "0 of 2 records measured, 2 failed there."
        said = [str(one) for one in summary(read_report(folder)).renderables]
        assert "  s001 failed there: An element is off by 1." in said
    assert verify(folder) == []


def test_what_no_executor_reaches_stays_owed_until_one_does(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "gain:20"))
        host.submit("bob", source=planned(2, "gain:10"))
    judge_all(folder, scripted_guard(tmp_path))
    with opened(folder) as host:
        assert board(host).owed == 2 and board(host).rows == []
        assert "s001, s002 wait for a free device of this model" in board(host).words
        command = [scripted_guard(tmp_path, "scripted_fleet"), "--devices", "1"]
        dispatch(host, FleetClient(command, tmp_path / "log", model="scripted"))
        assert board(host).owed == 2, "the fleet has no such device"
        anyio.run(cut_off, host)
        assert board(host).owed == 2, "it was cut off"
        dispatch(host, Reaching(DeviceLost("lost far:gpu0"), DeviceLost("lost far:gpu0")))
        assert board(host).owed == 0
    assert verify(folder) == []


def test_a_fleet_measures_a_record_on_its_device_of_the_other_model(
    folder: Path, tmp_path: Path
) -> None:
    command = [scripted_guard(tmp_path, "scripted_fleet"), "--devices", "2", "--other", "other"]
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "gain:20"))
        host.submit("bob", source=planned(2, "narrow:30"))
        dispatch(host, FleetClient(command, tmp_path / "log", model="scripted"))
        rows = {row.record: row for row in read_report(folder).other_models[0].rows}
        assert {row.device for row in rows.values()} == {"other-1"}
        assert rows["s001"].over_seed is not None and rows["s002"].reason == "wrong_result"
    judged = [json.loads(row.body)["result"]["lease"] for row in rows_of(folder)
              if row.kind in ("calibrated", "screened", "confirmed", "spread_updated")]  # fmt: skip
    assert "other-1" not in {lease["unit"] for lease in judged if lease}
    assert verify(folder) == []


def test_verify_names_rows_of_extra_boards_that_do_not_follow(folder: Path) -> None:
    with opened(folder) as host:
        host.submit("ada", source=planned(1, "gain:20"))
        dispatch(host, Reaching())
    row = row_of(folder, "extra_measured")
    forged: list[tuple[dict[str, object], str]] = [
        ({"over_seed": {"ratio": 2.0}}, "its pairs give the ratio"),
        ({"model": "third"}, "s001 is not owed on third"),
        ({"record": "s009"}, "s009 is not owed on other"),
        ({"result": None, "over_seed": None}, "it does not say why there is no ratio"),
    ]
    for change, said in forged:
        before = json.loads(row.body)
        forge(folder, row.seq, change)
        assert any(f"row {row.seq}: extra_measured: {said}" in one for one in verify(folder)), said
        forge(folder, row.seq, before)
    assert verify(folder) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"extra_models": ["H100"]}, "name the campaign's own model in device_model, too"),
        ({"device_model": "H200", "extra_models": ["H200"]}, "models other than device_model"),
        ({"device_model": "H200", "extra_models": ["H100", "H100"]}, "a name occurs twice"),
    ],
)
def test_extra_models_that_make_no_sense_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        make_settings(**changes)
