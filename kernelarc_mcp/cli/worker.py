"""`worker`: offer this host's devices to a fleet."""

import os
import platform
import re
import socket
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from kernelarc_guard import cores
from kernelarc_mcp.cache import cache_root
from kernelarc_mcp.cli.children import stopped_by_signals
from kernelarc_mcp.cli.console import UserError, err
from kernelarc_mcp.cli.options import (
    AllowUnsandboxed,
    GuardPython,
    LockClocks,
    gpus_here,
    guard_python,
)
from kernelarc_mcp.executors import DEFAULT_PORT, read_head

LEAST_CORES: Final = 4
"""As in `fleet.building`, which is not imported before Ray is known to be there."""
_PROBE_SECONDS: Final = 3.0
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_RAYS_OWN: Final = range(10002, 20000)
"""Ports that `ray start` gives to its workers unless its options name others."""
_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


def need_ray(what: str) -> None:
    """Raise UserError where Ray is not installed."""
    if find_spec("ray") is None:
        raise UserError(f"{what} needs Ray: pip install 'kernelarc-mcp[ray]'")


def worker(
    context: typer.Context,
    address: Annotated[
        str,
        typer.Option(
            "--address",
            metavar="HOST[:PORT]",
            help=f"The Ray head of the fleet; port {DEFAULT_PORT} unless another is said.",
        ),
    ] = "",
    head: Annotated[
        bool, typer.Option("--head", help="Be the head: others join with --address THIS_HOST.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="Port of the head that --head starts.")
    ] = DEFAULT_PORT,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            metavar="cpu|cuda:N|all|none",
            help="What to offer; may be said more than once. all: every GPU, or the CPU where there "
            "is none.",
            show_default="all",
        ),
    ] = None,
    builders: Annotated[
        int,
        typer.Option(
            "--builders",
            min=0,
            max=1024,
            help="Offer so many slots that compile what is next in line, for any host's devices; for "
            "hosts with cores to spare, also without a GPU (--device none).",
        ),
    ] = 0,
    name: Annotated[
        str,
        typer.Option("--name", help="What this host is called.", show_default="its host name"),
    ] = "",
    no_node: Annotated[
        bool,
        typer.Option("--no-node", help="This host is a Ray node of the cluster already."),
    ] = False,
    node_ip: Annotated[
        str, typer.Option("--node-ip", help="Address by which other hosts reach this one.")
    ] = "",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            metavar="DIR",
            help="Where builds are cached and guards log.",
            show_default="the user's cache directory",
        ),
    ] = None,
    object_store: Annotated[
        int, typer.Option("--object-store-mb", min=80, help="Memory of the node's object store.")
    ] = 256,
    namespace: Annotated[
        str, typer.Option("--namespace", help="Fleets of one cluster are told apart by it.")
    ] = "kernelarc",
    guard: GuardPython = "",
    allow_unsandboxed: AllowUnsandboxed = False,
    lock_clocks: LockClocks = 0,
) -> None:
    """Join a fleet: start a Ray node here and offer its devices, or build slots, until Ctrl-C (docs/fleet.md).

    Each device gets a guard process of its own, kept warm. What comes after `--` is handed to
    `ray start`.
    """
    need_ray("worker")
    from kernelarc_mcp.fleet.hosting import Hosting, HostingFailed, HostOptions
    from kernelarc_mcp.fleet.node import NodeOptions

    if head == bool(address):
        raise UserError("say either --head, or --address HOST[:PORT] of the head")
    if head and no_node:
        raise UserError("--no-node: a host with --head starts the cluster's first node itself")
    if head and port in _RAYS_OWN and not any("worker-port" in one for one in context.args):
        raise UserError(
            f"--port: {port} is among the ports that Ray's workers take ({_RAYS_OWN[0]} to"
            f" {_RAYS_OWN[-1]}); say another, or give them others: -- --min-worker-port=N"
            " --max-worker-port=N"
        )
    called = name or platform.node() or "host"
    if not _NAME.fullmatch(called):
        raise UserError(f"--name: {called!r}: letters, digits, '.', '-' and '_', at most 63")
    host, at = (node_ip or "127.0.0.1", port) if head else _address(address)
    cpu, gpus, visible = _devices(device or ["all"])
    _check_builders(builders, cpu=cpu, devices=cpu or gpus > 0)
    node = NodeOptions(
        address="" if head else f"{host}:{at}",
        port=at,
        gpus=gpus,
        builders=builders,
        object_store_bytes=object_store << 20,
        node_ip=node_ip,
        more=tuple(context.args),
        environment={_VISIBLE: visible} if visible else {},
    )
    options = HostOptions(
        address=f"{host}:{at}",
        node=None if no_node else node,
        name=called,
        cpu=cpu,
        gpus=gpus,
        guard_python=guard_python(guard),
        folder=(folder or cache_root() / "fleet" / called).absolute(),
        namespace=namespace,
        builders=builders,
    )

    def say(line: str) -> None:
        err.print(f"worker {called}: {line}", markup=False, highlight=False)

    def reachable() -> bool:
        with suppress(OSError), socket.create_connection((host, at), _PROBE_SECONDS):
            return True
        return False

    try:
        with stopped_by_signals():
            Hosting(options, say).run(reachable)
    except HostingFailed as error:
        raise UserError(str(error)) from None


def _address(text: str) -> tuple[str, int]:
    try:
        return read_head(text.removeprefix("ray://"))
    except ValueError as error:
        raise UserError(f"--address: {error}") from error


def _devices(given: list[str]) -> tuple[bool, int, str]:
    """Return whether the CPU is offered, how many GPUs, and which Ray may see (empty: all)."""
    wanted = dict.fromkeys(given)
    if "none" in wanted:
        if len(wanted) > 1:
            raise UserError("--device none: nothing else can be said beside it")
        return False, 0, ""
    count = gpus_here() if set(wanted) - {"cpu"} else 0
    if "all" in wanted:
        return "cpu" in wanted or count == 0, count, ""
    numbers = []
    for one in wanted:
        number = one.removeprefix("cuda:")
        if one == "cpu":
            continue
        if number == one or not number.isdecimal():
            raise UserError(f"--device: {one!r}: expected cpu, cuda:N, all or none")
        if int(number) >= count:
            raise UserError(f"--device {one}: this host has {count} NVIDIA GPUs")
        numbers.append(int(number))
    seen = os.environ.get(_VISIBLE, "").split(",")
    # Numbers count what this process sees, which may be some of the host's GPUs already.
    names = [seen[n] if n < len(seen) and seen[n] else str(n) for n in numbers]
    return "cpu" in wanted, len(numbers), ",".join(names)


def _check_builders(builders: int, *, cpu: bool, devices: bool) -> None:
    """Refuse build slots that would disturb what is timed on this host."""
    if not builders:
        return
    if cpu:
        raise UserError(
            "--builders: compilers would disturb what is timed on this host's CPU; offer it for "
            "building alone, with --device none"
        )
    if devices and len(cores.ALL) < LEAST_CORES:
        raise UserError(f"--builders beside a GPU takes {LEAST_CORES} cores or more")
    if builders > len(cores.ALL):
        raise UserError(f"--builders {builders}: this host has {len(cores.ALL)} cores")
