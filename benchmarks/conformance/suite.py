"""One run of the official suite's server scenarios against one server."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.conformance.node import Node

REVISIONS = ("2025-11-25", "2026-07-28")
_RUN_SECONDS = 600.0
_SCENARIO_SECONDS = 120
_FOLDER = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[-\d]+Z")


@dataclass
class Outcome:
    """How many checks of one scenario passed and failed, and what the failed ones said."""

    passed: int = 0
    failed: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Return whether something passed and nothing failed; a scenario that was not run is wrong."""
        return self.passed > 0 and not self.failed

    def __str__(self) -> str:
        return f"{self.passed}/{self.passed + self.failed}" if self.passed + self.failed else "0"


@dataclass(frozen=True)
class Requirements:
    """The suite's own list for a revision of the protocol."""

    scored: list[str]
    unscored: dict[str, str]
    """Scenario -> why it does not count."""


def requirements(node: Node, revision: str) -> Requirements:
    """Return what a server must pass at `revision`."""
    read = yaml.safe_load((node.suite / "requirements" / f"{revision}.yaml").read_text())
    others = {
        str(one["scenario"]): str(one["reason"])
        for one in read["not_scored"]
        if one["leg"] == "server"
    }
    return Requirements([str(name) for name in read["server"]], others)


def run(node: Node, revision: str, url: str, token: str, folder: Path) -> dict[str, Outcome]:
    """Return each scenario's outcome against the server at `url`; details stay in `folder`."""
    folder.mkdir(parents=True)
    preload = ["--import", str(Path(__file__).with_name("authorise.mjs"))] if token else []
    command = [str(node.suite / "dist/index.js"), "server", "--url", url]
    command += ["--requirements", revision, "--timeout", str(_SCENARIO_SECONDS * 1000)]
    command += ["-o", str(folder)]
    done = node.run([*preload, *command], _RUN_SECONDS, folder, KERNELARC_TOKEN=token)
    (folder / "output.txt").write_text(done.stdout)
    outcomes: dict[str, Outcome] = {}
    for checks in sorted(folder.glob("server-*/checks.json")):
        named = _FOLDER.fullmatch(checks.parent.name)
        if named is None:
            raise RuntimeError(f"{checks}: the suite names its folders in another way")
        outcomes[named[1]] = _outcome(json.loads(checks.read_text()))
    if not outcomes:
        raise RuntimeError(f"the suite tried nothing (status {done.returncode}): {done.stdout}")
    return outcomes


def _outcome(checks: list[Mapping[str, Any]]) -> Outcome:
    failed = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    return Outcome(
        passed=sum(check["status"] == "SUCCESS" for check in checks),
        failed=len(failed),
        faults=[f"{check['id']}: {check.get('errorMessage', '')}" for check in failed],
    )
