"""Options of `new` that say how a campaign searches; also read from a file."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml
from pydantic_core import ErrorDetails

from kernelarc_guard.model import Model
from kernelarc_mcp.cli.console import UserError
from kernelarc_mcp.cli.options import gpus_here
from kernelarc_mcp.host.settings import CampaignSettings

Lenses = Annotated[
    list[str] | None,
    typer.Option(
        "--lens",
        metavar="NAME",
        help="An eligible lens, repeated in order of assignment.",
        show_default="those of the operator class",
    ),
]
Snapshots = Annotated[
    str | None,
    typer.Option(
        metavar="always|drafting|never",
        help="When an agent may read the sources of others.",
        show_default="drafting",
    ),
]
RetentionOption = Annotated[
    str | None,
    typer.Option(
        "--retention",
        metavar="N|unbounded",
        help="Conclusions an agent is shown: the newest N, or all.",
        show_default="16",
    ),
]
WallSeconds = Annotated[
    float | None,
    typer.Option(help="Stop so long after the campaign was created.", show_default="never"),
]
GpuSeconds = Annotated[
    float | None,
    typer.Option(help="Stop when submissions have held the device so long.", show_default="never"),
]
Money = Annotated[
    float | None,
    typer.Option(
        help="Stop an agent when it is known to have spent its share of so many US dollars.",
        show_default="never",
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="YAML or JSON with any of a campaign's settings; options win over it.",
    ),
]
MOST_AGENTS: Final = 64
_OURS: Final = {
    "problem": "--problem names it",
    "device": "--device names it",
    "memory": "--memory is resolved from where you are",
}


def read_settings(path: Path | None) -> dict[str, Any]:
    """Return the settings that a file names; UserError says what is wrong with it, and where."""
    if path is None:
        return {}
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"--settings {path}: no such file") from None
    except OSError as error:
        raise UserError(f"--settings {path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"--settings {path}: {' '.join(str(error).split())}") from None
    if said is None:
        return {}
    if not isinstance(said, dict):
        raise UserError(f"--settings {path}: expected names and values, not {type(said).__name__}")
    known = CampaignSettings.model_fields.keys() - _OURS.keys()
    if strange := [name for name in said if name not in known]:
        first = strange[0]
        allowed = f"no setting of a campaign; allowed: {', '.join(sorted(known))}"
        why = f"not in a file, {_OURS[first]}" if first in _OURS else allowed
        raise UserError(f"--settings {path}: {first}: {why}{and_more(len(strange) - 1)}")
    count = said.get("agents")
    if type(count) is int and 1 <= count <= MOST_AGENTS:
        return said | {"agents": numbered(count)}
    return said


def numbered(agents: int) -> list[str]:
    """Return the names of so many agents that were given none."""
    return [f"agent-{number}" for number in range(1, agents + 1)]


def and_more(faults: int) -> str:
    """Say how many further faults there are; nothing where there is none."""
    return f" (and {faults} more fault{'' if faults == 1 else 's'})" if faults else ""


def in_words(fault: ErrorDetails) -> str:
    """Say what is wrong with one setting, and what is expected."""
    where = fault["loc"]
    field = CampaignSettings.model_fields.get(str(where[0])) if where else None
    group = field.annotation if field is not None else None
    inner = group.model_fields if isinstance(group, type) and issubclass(group, Model) else {}
    match fault["type"]:
        case "extra_forbidden" if inner:
            return f"no such name; allowed: {', '.join(sorted(inner))}"
        case "list_type" if where[0] == "agents":
            return f"expected names, as in [ada, grace], or a number from 1 to {MOST_AGENTS}"
        case "list_type":
            return "expected a list, as in [ONE, TWO]"
        case "model_type" if inner:
            return f"expected names and values, as in {{{min(inner)}: ...}}; names: {', '.join(sorted(inner))}"
        case _:
            return fault["msg"].removeprefix("Value error, ")


def doubts(settings: CampaignSettings) -> list[str]:
    """Return, in words, which settings hardly fit together; none of it is impossible."""
    names = (settings.device_model, *settings.extra_models)
    gpus = [name for name in names if name.upper().startswith("NVIDIA")]
    if settings.device.startswith("cuda") or not gpus:
        return []
    return [
        f"{' and '.join(gpus)}: the campaign is judged on CPUs (--device {settings.device}), whatever"
        " GPUs a fleet has; for a campaign on GPUs say --device cuda:0, of which a fleet ignores the number"
    ]


def not_here(device: str) -> list[str]:
    """Say that this machine lacks a campaign's device, where it does; it may be served elsewhere."""
    if device == "cpu" or int(device.removeprefix("cuda:")) < (seen := gpus_here()):
        return []
    found = f"{seen} NVIDIA GPU{'' if seen == 1 else 's'}" if seen else "no NVIDIA GPU"
    return [
        f"--device {device}: this machine has {found} that can be used: serve the campaign on one that"
        " has this device, as it cannot be changed later"
    ]


def retention(said: str | None) -> dict[str, Any]:
    """Return the settings for what `--retention` said; UserError where that is neither of its forms."""
    if said is None:
        return {}
    if said == "unbounded":
        return {"retention": "unbounded"}
    if said.isdecimal() and int(said) >= 1:
        return {"retention": "bounded", "retention_count": int(said)}
    raise UserError(
        f"--retention {said}: expected a number from 1 or 'unbounded'; a horizon of submissions or "
        "hours goes into a file, --settings"
    )


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}
