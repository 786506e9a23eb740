"""What both kinds of actors begin with: the host's environment, and what its guard's interpreter says. Imports no ray."""

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Final

from kernelarc_mcp.fleet.choice import Device
from kernelarc_mcp.fleet.versions import versions

_SECONDS: Final = 120.0


def take_environment(given: Mapping[str, str]) -> None:
    """Make variables of the host's `worker` those of this process and its guard; an empty one is unset."""
    for name, value in given.items():
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value


async def identified(guard_python: str, place: str, name: str, host: str) -> Device:
    """Return what `place` is on this host, as `guard_python` knows it; RuntimeError where it does not.

    TimeoutError where it says nothing.
    """
    process = await asyncio.create_subprocess_exec(
        *(guard_python, "-I", "-m", "kernelarc_guard.identity", place),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = (err.decode("utf-8", "replace").strip() or "no message").splitlines()[-1]
        raise RuntimeError(f"{guard_python} does not know {place}: {last}")
    told = json.loads(out)
    return Device(
        name=name,
        kind=place.partition(":")[0],
        model=told["model"],
        host=host,
        versions=versions(),
        toolchain=told["toolchain"],
        unit=told["unit"],
        built_with=told["built_with"],
        architecture=told["architecture"],
    )
