"""The commands that repeat a report's numbers, and the search, with what they need."""

import json
import math
import shlex
from typing import Any, Final

from kernelarc_guard.devices import default_parameters
from kernelarc_guard.model import Model
from kernelarc_mcp.host.lenses import eligible_lenses
from kernelarc_mcp.host.settings import CampaignSettings
from kernelarc_mcp.reporting.document import Document

_OPTIONS: Final = {
    "attempts": "--attempts",
    "r_draft": "--r-draft",
    "snapshots": "--snapshots",
    "wall_seconds": "--wall-seconds",
    "gpu_seconds": "--gpu-seconds",
    "money": "--money",
    "calibration_nurseries": "--nurseries",
    "canary_rate": "--canary-rate",
}
_NOT_IN_A_FILE: Final = {"name", "problem", "device", "memory", "agents", "parameters"}


class Command(Model):
    """One line for a shell."""

    line: str
    what: str
    headline: bool = False
    """It is the one that repeats the number in the title."""


def needed(document: Document) -> list[str]:
    """Return what somebody needs who wants to repeat it."""
    device = document.measured_on
    lines = [
        "DIR: the campaign's directory (`campaign.db` with every source and every measured call, and"
        " `problem/`), from whoever sent this report; it is the right one if `kernelarc-mcp report DIR"
        f" --json` names the `ledger_head` {document.ledger_head[:16]}...",
    ]
    if device.device.startswith("cuda"):
        kind = device.gpu or "GPU of the same kind (its model was not recorded, see On what)"
        lines.append(
            f"For judging: one {kind} that nothing else uses, its driver, nvcc on the PATH for CUDA sources,"
            " and the right to open the device; no root."
        )
    else:
        kind = device.machine or "not recorded"
        lines.append(
            f"For judging: a machine of this kind ({kind}) that is otherwise idle, and a C++ compiler; no"
            " root."
        )
    lines.append(
        "The sandbox needs unprivileged user namespaces and Landlock: `kernelarc-mcp doctor` says what is"
        " missing."
    )
    return lines


def commands(document: Document) -> list[Command]:
    """Return the commands in their order; one at most is the headline's."""
    gpu = document.measured_on.device.startswith("cuda")
    extra = "cuda12" if gpu else "guard"
    also = "; `cuda13` instead of `cuda12` where CUDA is 13" if gpu else ""
    found = [
        Command(
            line=f'pip install "kernelarc-mcp[{extra}]=={document.version}"',
            what=f"server and guard{also}",
        ),
        Command(
            line="kernelarc-mcp verify DIR",
            what="compute every counter and verdict again, without a device; success: no"
            " finding, status 0",
        ),
    ]
    if document.about.own_seed:
        export = "kernelarc-mcp export DIR --submission seed --to solution --out seed.json"
        found.append(Command(line=export, what="the seed"))
    if document.record.agent is not None:
        found += _record(document)
    return [*found, *_anew(document), Command(line="kernelarc-mcp report DIR", what="this report")]


def _record(document: Document) -> list[Command]:
    """Return what judges the record again, over the seed and over the record before it."""
    best, device = document.record, document.settings.device
    line = ["kernelarc-mcp", "evaluate", "--problem", "DIR/problem", "--solution", "record.json"]
    if document.about.own_seed:
        line += ["--record", "seed.json"]
    near = f"about {best.speedup:.3f}"
    if (over := best.over_seed) is not None:
        # What another comparison of as many pairs gives spreads sqrt(2) times as far as this one's mean.
        half = math.sqrt(2) * math.log(over.upper / over.lower) / 2
        low, high = over.ratio * math.exp(-half), over.ratio * math.exp(half)
        near = f"{low:.2f} to {high:.2f} in 95 of 100 repetitions on this very device"
    return [
        Command(line="kernelarc-mcp export DIR --to solution --out record.json", what="the record"),
        Command(
            line=shlex.join([*line, "--device", device]),
            what=f"the record beside the seed, minutes; success: KEEP, with a speedup of {near}",
            headline=True,
        ),
        Command(
            line=f"kernelarc-mcp reproduce DIR {best.submission}",
            what="the record beside the one that it beat; success: it is faster here too, status 0"
            " (1: the verdict does not hold, 2: it could not be judged)",
        ),
        Command(
            line="kernelarc-mcp export DIR --to folder --out PATH",
            what="the kernel, its test and README",
        ),
        Command(line="kernelarc-mcp score DIR", what="how far it is from what the device can do"),
    ]


def _anew(document: Document) -> list[Command]:
    """Return what creates a campaign with the same problem, seed and settings."""
    settings = document.settings
    found: list[Command] = []
    line = ["kernelarc-mcp", "new", "NEW", "--problem", "DIR/problem", "--device", settings.device]
    if document.about.own_seed:
        line += ["--seed", "seed.json"]
    numbered = [f"agent-{number}" for number in range(1, len(settings.agents) + 1)]
    given = _differing(settings, document.operator_class)
    if settings.agents == numbered:
        line += ["--agents", str(len(numbered))]
    else:
        given["agents"] = settings.agents
    for name, option in _OPTIONS.items():
        if name in given:
            value = given.pop(name)
            line += [option, f"{value:g}" if isinstance(value, float) else str(value)]
    if given.pop("pool", False):
        line.append("--pool")
    for lens in given.pop("lenses", []):
        line += ["--lens", lens]
    if given:
        text = shlex.quote(json.dumps(given))
        found.append(Command(line=f"echo {text} > search.json", what="its other settings"))
        line += ["--settings", "search.json"]
    what = "create the same search anew; then `kernelarc-mcp connect NEW` says how agents join"
    return [*found, Command(line=shlex.join(line), what=what)]


def _differing(settings: CampaignSettings, operator_class: str) -> dict[str, Any]:
    """Return the settings that are not the defaults, without what only options say."""
    given = settings.model_dump(mode="json", exclude_defaults=True, exclude=_NOT_IN_A_FILE)
    if settings.parameters != default_parameters(settings.device):
        given["parameters"] = settings.parameters.model_dump(mode="json", exclude_defaults=True)
    if settings.lenses == eligible_lenses(operator_class, settings.device):
        del given["lenses"]
    return given
