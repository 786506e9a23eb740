"""The SDK's reference server: part of its source distribution, not of the installed package."""

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

_INSIDE = "examples/servers/everything-server/"


def fetch(folder: Path) -> Path:
    """Return the folder with the reference server of the installed SDK, fetched once into `folder`."""
    release = f"mcp-{version('mcp')}"
    found = folder / release / _INSIDE
    if not found.is_dir():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--no-binary", "mcp"]
        command += ["--dest", str(folder), f"mcp=={version('mcp')}"]
        subprocess.run(command, check=True)
        with tarfile.open(folder / f"{release}.tar.gz") as archive:
            wanted = [one for one in archive if one.name.startswith(f"{release}/{_INSIDE}")]
            archive.extractall(folder, wanted, filter="data")
    return found
