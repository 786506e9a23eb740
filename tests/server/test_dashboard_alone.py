"""`dashboard`: a campaign in a browser where no server of it runs."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx2
from command_line import Run
from http_door import PATIENCE
from server_campaigns import Place


def test_a_campaign_is_shown_without_a_server_to_whoever_has_the_printed_link(place: Place) -> None:
    before = {path.name for path in place.folder.iterdir()}
    rows = place.events()
    command = [sys.executable, "-m", "kernelarc_mcp", "dashboard", str(place.folder)]
    with subprocess.Popen(
        [*command, "--http", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            base, _, token = process.stdout.readline().strip().partition("/#token=")
            assert base.startswith("http://127.0.0.1:") and token
            page = httpx2.get(base, timeout=PATIENCE)
            assert page.status_code == 200 and "dashboard.js" in page.text
            data = f"{base}/dashboard/data"
            bearer = {"Authorization": f"Bearer {token}"}
            shown = httpx2.get(data, headers=bearer, timeout=PATIENCE).json()
            assert shown["campaign"] == "trial" and shown["attempts_used"] == 0
            assert not shown["served"]
            own = {"Authorization": f"Bearer {place.tokens['ada']}"}
            for wrong in ({}, own, {"Authorization": "Bearer ka_wrong"}):
                assert httpx2.get(data, headers=wrong, timeout=PATIENCE).status_code == 401
            elsewhere = bearer | {"Host": "example.org"}
            assert httpx2.get(data, headers=elsewhere, timeout=PATIENCE).status_code == 421
            assert httpx2.post(f"{base}/mcp", headers=bearer, timeout=PATIENCE).status_code == 404
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)
        assert process.returncode in (0, 130) and "Traceback" not in process.stderr.read()
    assert place.events() == rows
    new = {path.name for path in place.folder.iterdir()} - before
    assert not new & {"dispatcher.lock", "dispatcher.json", "logs", "cache"}, new


def test_where_it_cannot_be_shown_is_one_line(run: Run, place: Place, tmp_path: Path) -> None:
    for arguments, said in (
        ([str(tmp_path), "--http", "0"], "no campaign here"),
        ([str(place.folder), "--http", "0.0.0.0:0"], "not loopback"),
        ([str(place.folder), "--http", "nowhere"], "expected HOST:PORT"),
    ):
        status, out, err = run("dashboard", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1) and said in err
