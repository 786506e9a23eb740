"""The server imports neither Ray nor what stands between it and Ray; commands say what is missing."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelarc_mcp.cli.console import UserError
from kernelarc_mcp.cli.main import app
from kernelarc_mcp.executors import ExecutorError, make_executor
from kernelarc_mcp.host.fleet_client import FleetClient
from kernelarc_mcp.host.judging import LocalExecutor
from kernelarc_mcp.host.settings import CampaignSettings

SETTINGS = CampaignSettings(name="c", problem="p", agents=["a"], device_model="NVIDIA H200")
_PROGRAM = """
import sys
import kernelarc_mcp.cli.main, kernelarc_mcp.executors, kernelarc_mcp.server
loaded = [name for name in sys.modules if name == "ray" or name.startswith("kernelarc_mcp.fleet")]
sys.exit(", ".join(loaded) or 0)
"""


def test_the_server_and_the_command_line_import_neither_ray_nor_the_fleet() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", _PROGRAM], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_executor_is_named_in_one_word_and_anything_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelarc_mcp.executors.find_spec", lambda name: object())
    local = make_executor("local", SETTINGS, tmp_path, sys.executable)
    assert isinstance(local, LocalExecutor)
    far = make_executor("ray://127.0.0.2:7000/lab", SETTINGS, tmp_path, sys.executable)
    assert isinstance(far, FleetClient)
    command = " ".join(far._command)
    assert "--address 127.0.0.2:7000 --campaign c --kind cpu --model NVIDIA H200" in command
    assert command.endswith("--namespace lab")
    with pytest.raises(ExecutorError, match="expected local, ray"):
        make_executor("slurm", SETTINGS, tmp_path, sys.executable)
    for wrong in ("ray://far:x", "ray://:7000", "ray://far:0", "ray://far:70000"):
        with pytest.raises(ExecutorError, match=r"expected HOST\[:PORT\] of the Ray head"):
            make_executor(wrong, SETTINGS, tmp_path, sys.executable)
    with pytest.raises(ExecutorError, match="no address can be found for 'x{64}'"):
        make_executor(f"ray://{'x' * 64}", SETTINGS, tmp_path, sys.executable)

    def unknown(host: str, port: int) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("kernelarc_mcp.executors.socket.getaddrinfo", unknown)
    with pytest.raises(ExecutorError, match="'nohost': Name or service not known"):
        make_executor("ray://nohost", SETTINGS, tmp_path, sys.executable)
    make_executor("ray://nohost", SETTINGS, tmp_path, sys.executable, look_up=False)
    monkeypatch.setattr("kernelarc_mcp.executors.find_spec", lambda name: None)
    with pytest.raises(ExecutorError, match=r"pip install 'kernelarc-mcp\[ray\]'"):
        make_executor("ray", SETTINGS, tmp_path, sys.executable)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "either --head, or --address"),
        (["--head", "--address", "x"], "either --head, or --address"),
        (["--head", "--no-node"], "--no-node"),
        (["--head", "--port", "16379"], "Ray's workers take (10002 to 19999)"),
        (["--address", "x:y"], "expected HOST"),
        (["--head", "--name", "a b"], "--name"),
        (["--head", "--device", "tpu"], "expected cpu, cuda:N"),
        (["--head", "--device", "none", "--device", "cpu"], "nothing else"),
        (["--head", "--device", "cpu", "--builders", "1"], "disturb what is timed"),
        (["--head", "--device", "none", "--builders", "1024"], "this host has"),
    ],
)
def test_a_worker_that_makes_no_sense_is_refused_with_what_is_allowed(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelarc_mcp.cli.worker.find_spec", lambda name: object())
    result = CliRunner().invoke(app, ["worker", *words])
    assert isinstance(result.exception, UserError) and told in str(result.exception)


def test_a_worker_without_ray_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelarc_mcp.cli.worker.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["worker", "--head"])
    assert "pip install 'kernelarc-mcp[ray]'" in str(result.exception)
