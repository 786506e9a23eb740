"""Which templates and courses are for a campaign: by what its device runs and its operator class."""

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from kernelarc_guard.model import Model
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.guides import Page, Template, courses_for, pages, templates
from kernelarc_mcp.host.lenses import Name, backend_of, load_eligibility

FILE: Final = "fits.yaml"


class Fits(Model):
    """What templates are about."""

    groups: dict[Name, list[Name]]
    """A group of operator classes by name."""
    templates: dict[Name, Name]
    """Template -> the group it is for; one that is not named is for every class."""


def fitting_templates(operator_class: str, device: str) -> list[Template]:
    """Return the templates for an operator class that a device runs, by name."""
    folder = data_dir("strategies")
    known, fits = load_eligibility(folder).class_of(operator_class), load_fits(folder)
    backend = backend_of(device)
    return [
        one
        for name, one in templates().items()
        if one.runs_on(backend)
        and (name not in fits.templates or known in fits.groups[fits.templates[name]])
    ]


def fitting_pages(operator_class: str, device: str) -> list[Page]:
    """Return the pages of the courses for a campaign, the likeliest course first."""
    known = pages(backend_of(device))
    return [
        page
        for course in courses_for(operator_class, device)
        for page in known
        if page.course == course.course
    ]


@lru_cache(maxsize=8)
def load_fits(folder: Path) -> Fits:
    """Read and check what the templates of a folder of strategies are about.

    CampaignError names file, field and fault.
    """
    path = folder / "templates" / FILE
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        fits = Fits.model_validate(raw)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CampaignError(f"{FILE}: cannot be read: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CampaignError(f"{FILE}: {where}: {first['msg']}") from error
    classes = load_eligibility(folder).classes
    for group, names in fits.groups.items():
        unknown = [name for name in names if name not in classes]
        if unknown:
            raise CampaignError(f"{FILE}: groups.{group}: there is no class {unknown[0]!r}")
    for name, group in fits.templates.items():
        if group not in fits.groups:
            raise CampaignError(f"{FILE}: templates.{name}: there is no group {group!r}")
        if not any((folder / "templates").glob(f"{name}.*")):
            raise CampaignError(f"{FILE}: templates.{name}: there is no such template")
    return fits
