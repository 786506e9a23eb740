"""Who judges a campaign, as `serve --executor` says it: a guard of this machine, or a fleet."""

import re
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kernelarc_mcp.host.fleet_client import FleetClient
from kernelarc_mcp.host.judging import Executor, LocalExecutor
from kernelarc_mcp.host.settings import CampaignSettings

LOCAL: Final = "local"
DEFAULT_PORT: Final = 6379
HEAD: Final = f"127.0.0.1:{DEFAULT_PORT}"
_RAY: Final = re.compile(r"ray(?:://(?P<head>[^/]+)(?:/(?P<namespace>[\w.-]+))?)?")


class ExecutorError(ValueError):
    """What was said is no executor, or it cannot be had here; the message says what is allowed."""


def read_head(text: str) -> tuple[str, int]:
    """Read HOST[:PORT] of a Ray head; ValueError where it is something else."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r}: expected HOST[:PORT] of the Ray head")
    return host, int(port)


def make_executor(
    text: str,
    settings: CampaignSettings,
    folder: Path,
    guard_python: str,
    *,
    look_up: bool = True,
) -> Executor:
    """Return the executor that `text` names: `local`, `ray` or `ray://HOST[:PORT][/NAMESPACE]`.

    Nothing is started before a dispatcher enters it. Ray is not imported here or later: only the
    stand-in's process does that. With `look_up` a head whose name has no address is refused, which
    may take as long as a name server does.
    """
    log = folder / "guard.log"
    if text == LOCAL:
        return LocalExecutor(guard_python, log)
    found = _RAY.fullmatch(text)
    if found is None:
        raise ExecutorError(
            f"{text!r}: expected local, ray (the head is on this host) or ray://HOST[:PORT]"
        )
    try:
        host, port = read_head(found["head"] or HEAD)
    except ValueError as error:
        raise ExecutorError(str(error)) from error
    if find_spec("ray") is None:
        raise ExecutorError(f"{text} needs Ray: pip install 'kernelarc-mcp[ray]'")
    try:
        if look_up:
            socket.getaddrinfo(host, port)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ExecutorError(f"{text}: no address can be found for {host!r}: {why}") from error
    command = [sys.executable, "-I", "-m", "kernelarc_mcp.fleet.standin"]
    command += ["--address", f"{host}:{port}", "--campaign", settings.name]
    command += ["--kind", "cuda" if settings.device.startswith("cuda") else "cpu"]
    if settings.device_model:
        command += ["--model", settings.device_model]
    if found["namespace"]:
        command += ["--namespace", found["namespace"]]
    return FleetClient(command, log, model=settings.device_model)
