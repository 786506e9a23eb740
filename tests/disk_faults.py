"""Run as root in a mount namespace of its own: a campaign on a disk that fills, closes and changes hands.

Takes a campaign's directory on a small disk of its own; prints what each caller was told, as JSON.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from host_places import kernel

from kernelarc_mcp.cli.campaign_doctor import examine_campaign
from kernelarc_mcp.dashboard.glance import Followed, glance
from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.readable import readable
from kernelarc_mcp.host.verify import verify
from kernelarc_mcp.report import read_report
from kernelarc_mcp.reporting.document import read_document


def submit(host: Host, number: int) -> str:
    """Return what a client is told that submits."""
    try:
        given = host.submit("ada", source=kernel(number) + "# " * 20_000, request_id=f"r{number}")
    except HostError as error:
        return f"{type(error).__name__}: {error}"
    return f"charged {given.charged}"


def trouble(folder: Path) -> str:
    """Return what `doctor` says that is not well."""
    return "; ".join(f"{f.name}: {f.detail}" for f in examine_campaign(folder) if f.state != "ok")


def full(folder: Path) -> dict[str, object]:
    """Fill the disk to the last byte, submit, free it, and send the same again."""
    host = Host.open(folder)
    host.register("ada")
    ballast = folder.parent / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"0" * 4096)
        except OSError:
            pass
    told, number = "", 0
    while not told.startswith("StorageFault") and number < 50:
        number += 1
        told = submit(host, number)
    used = host.board().attempts_used
    doctor = trouble(folder)
    ballast.unlink()
    again, twice = submit(host, number), submit(host, number)
    found = {"told": told, "used": used, "before": number - 1, "doctor": doctor}
    found |= {"again": again, "twice": twice, "after": host.board().attempts_used}
    host.close()
    return found | {"verify": verify(folder)}


def read_only(folder: Path) -> dict[str, object]:
    """Mount it read-only under a running server, and look at it with the other commands."""
    host = Host.open(folder)
    before = host.board().attempts_used
    host.close()
    subprocess.run(["mount", "-o", "remount,ro", str(folder.parent)], check=True)
    try:
        opened = Host.open(folder)
        told = submit(opened, 900)
        opened.close()
    except HostError as error:
        told = f"{type(error).__name__}: {error}"
    found: dict[str, object] = {"told": told, "verify": verify(folder), "doctor": trouble(folder)}
    found["report"] = read_report(folder).attempts_used
    found["document"] = read_document(folder, "0").model_dump(include={"findings", "attempts_used"})
    with readable(folder) as campaign, campaign.journal.reading() as state:
        shown = glance(campaign, state, Followed.of(campaign))
    found["glance"] = shown.attempts_used, shown.activity
    subprocess.run(["mount", "-o", "remount,rw", str(folder.parent)], check=True)
    return found | {"before": before}


def wrong_owner(folder: Path) -> dict[str, object]:
    """Serve it as somebody who may only read it."""
    os.seteuid(65534)
    try:
        host = Host.open(folder)
        told = submit(host, 901)
        host.close()
    except HostError as error:
        told = f"{type(error).__name__}: {error}"
    found: dict[str, object] = {"told": told, "verify": verify(folder), "doctor": trouble(folder)}
    os.seteuid(0)
    return found


if __name__ == "__main__":
    campaign = Path(sys.argv[1])
    seen = {"full": full(campaign), "read_only": read_only(campaign)}
    print(json.dumps(seen | {"wrong_owner": wrong_owner(campaign)}))
