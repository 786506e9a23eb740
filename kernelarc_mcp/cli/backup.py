"""`backup` and `restore`: a campaign in one file, and a campaign out of it."""

from pathlib import Path
from typing import Annotated

import typer

from kernelarc_mcp.cli.console import out, print_json
from kernelarc_mcp.cli.options import CampaignDir, Json
from kernelarc_mcp.host import backup as archives


def backup(
    folder: CampaignDir,
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="Archive to write, such as rms.tar.gz.")
    ],
    as_json: Json = False,
) -> None:
    """Put a campaign into one file, while its servers run; the copy is verified before it is kept."""
    size = archives.backup(folder, target)
    if as_json:
        print_json({"campaign": str(folder), "backup": str(target), "bytes": size})
        return
    out.print(f"{target}: {size} bytes, verified", markup=False)
    out.print(f"Next: kernelarc-mcp restore {target} NEW_DIR, on any machine", markup=False)


def restore(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="What `backup` wrote.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New directory to unpack it as.")],
    as_json: Json = False,
) -> None:
    """Unpack a campaign's backup as a new directory; it is verified before it is there."""
    archives.restore(source, folder)
    if as_json:
        print_json({"backup": str(source), "campaign": str(folder)})
        return
    out.print(f"{folder}: restored and verified", markup=False)
    out.print(
        f"Next: kernelarc-mcp serve {folder} --http 127.0.0.1:8765. On another machine first"
        f" kernelarc-mcp calibrate {folder}, for its noise is another; tokens are as they were.",
        markup=False,
    )
