"""The table of prices: the one that comes with the package, and a campaign's own before it."""

import re
from collections.abc import Mapping
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Final

import yaml
from pydantic import Field, ValidationError

from kernelarc_guard.model import Model
from kernelarc_guard.textfile import first_error
from kernelarc_mcp.host.errors import HostError

FILE: Final = "prices.yaml"
"""In a campaign's directory."""
_MILLION: Final = 1e6
_DATED: Final = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d)$")


class PricesError(HostError):
    """A file of prices that cannot be used; one line that names the field."""


class Price(Model):
    """What one or several models cost, in US dollars for a million tokens."""

    models: list[str] = Field(min_length=1)
    """As their vendor's API names them; a date behind such a name changes nothing."""
    input: float = Field(ge=0)
    cached: float = Field(ge=0)
    """Of input that was read from a cache."""
    output: float = Field(ge=0)
    source: str = Field(min_length=1)
    date: date
    """When the source was read."""

    def usd(self, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
        """Return what tokens cost; the cached ones are a part of the input."""
        fresh = input_tokens - cached_tokens
        sums = fresh * self.input + cached_tokens * self.cached + output_tokens * self.output
        return sums / _MILLION


class _File(Model):
    prices: list[Price]


class Prices:
    """Prices by model."""

    def __init__(self, known: Mapping[str, Price]) -> None:
        """Take over prices by the vendors' names."""
        self._known = dict(known)

    def of(self, model: str) -> Price | None:
        """Return a model's price; None where it is not known."""
        return self._known.get(model) or self._known.get(_DATED.sub("", model))


def read_prices(folder: Path | None) -> Prices:
    """Return the prices that hold for the campaign in `folder`; PricesError for a file that is none."""
    shipped = files("kernelarc_mcp").joinpath("cost", FILE).read_text("utf-8")
    known = _by_model(shipped, f"the package's {FILE}")
    own = None if folder is None else folder / FILE
    if own is not None and own.is_file():
        try:
            known |= _by_model(own.read_text("utf-8"), str(own))
        except (OSError, UnicodeDecodeError) as error:
            raise PricesError(f"{own}: cannot be read: {error}") from None
    return Prices(known)


def _by_model(text: str, where: str) -> dict[str, Price]:
    try:
        found = _File.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise PricesError(f"{where}: no YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise PricesError(f"{where}: {first_error(error)[1]}") from None
    return {model: price for price in found.prices for model in price.models}
