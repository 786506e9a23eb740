"""The campaign's logs: a line per verdict, structured, capped, and silent about tokens and sources."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_campaigns import Place
from server_process import RawStdio, call

from kernelarc_mcp import logs
from kernelarc_mcp.host.telling import NOTABLE


@pytest.fixture
def plain_logging() -> Iterator[None]:
    """Take away again what a test adds to logging."""
    root, own = logging.getLogger(), logging.getLogger("kernelarc_mcp")
    verdicts = own.getChild("verdicts")
    before = [(one, list(one.handlers), one.level) for one in (root, own, verdicts)]
    yield
    for one, handlers, level in before:
        for handler in [h for h in one.handlers if h not in handlers]:
            one.removeHandler(handler)
            handler.close()
        one.setLevel(level)


def test_each_verdict_is_a_line_for_people_and_one_for_programs(
    place: Place, silent_guard: str
) -> None:
    server = RawStdio(place.folder, silent_guard, "ada")
    server.send_bytes(call(1, "get_brief", "{}"))
    server.answer(1)
    arguments = {"source": "# a secret of the agent", "summary": "s", "entry_point": "gone.py::run"}
    server.send_bytes(call(2, "submit_candidate", json.dumps(arguments)))
    assert server.answer(2)["structuredContent"]["verdict"] == "REJECT"
    assert server.close() == 0
    folder = place.folder / logs.FOLDER
    (line,) = (folder / logs.VERDICT_LINES).read_text().splitlines()
    assert "s001  ada  REJECT " in line
    rows = [json.loads(row) for row in (folder / logs.SERVER).read_text().splitlines()]
    (row,) = [row for row in rows if row.get("ticket")]
    assert (row["ticket"], row["agent"], row["verdict"]) == ("s001", "ada", "REJECT")
    everything = "".join(path.read_text() for path in folder.glob("*.log"))
    assert "secret of the agent" not in everything
    assert not any(token in everything for token in place.tokens.values())


def test_logs_rotate_and_stay_below_their_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain_logging: None
) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 2000)
    logs.set_up_logs(tmp_path, verbose=False)
    for number in range(400):
        logging.getLogger("kernelarc_mcp.some").info("line %d of many", number)
    written = sorted((tmp_path / logs.FOLDER).glob("server.log*"))
    assert len(written) == 1 + logs.FILES_KEPT
    assert all(path.stat().st_size <= 2200 for path in written)
    last = json.loads((tmp_path / logs.FOLDER / logs.SERVER).read_text().splitlines()[-1])
    assert last["message"] == "line 399 of many" and last["level"] == "INFO"


def test_tokens_and_refused_values_are_left_out_and_long_messages_cut() -> None:
    said = logs.without_secrets(
        "Authorization: Bearer abcdefghijk and ka_0123456789abcdef: "
        "[type=x, input_value='import torch', input_type=str]"
    )
    assert "abcdefghijk" not in said and "0123456789" not in said and "torch" not in said
    assert "input_type=str" in said
    assert logs.without_secrets("x" * 5000).endswith(" [...]")


def test_where_logs_cannot_be_written_stderr_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plain_logging: None
) -> None:
    (tmp_path / logs.FOLDER).write_text("a file in its place")
    logs.set_up_logs(tmp_path, verbose=False)
    own = logging.getLogger("kernelarc_mcp.some")
    own.warning("goes on")
    own.info("the fleet came", extra=NOTABLE)
    own.info("nobody asked for this")
    said = capsys.readouterr().err
    assert "cannot be written" in said and "goes on" in said
    assert "INFO kernelarc_mcp.some: the fleet came" in said and "nobody asked" not in said
