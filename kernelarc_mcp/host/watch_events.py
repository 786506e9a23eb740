"""Rows about what is judged with: the device, its calibration, and records that may have drifted."""

from typing import Literal

from pydantic import Field

from kernelarc_guard.model import Model
from kernelarc_guard.protocol import Result


class CalibrationAsked(Model):
    """Somebody asked for the device's noise to be measured again."""

    kind: Literal["calibration_asked"] = "calibration_asked"
    nurseries: int = Field(ge=1, le=100)
    pairs: int = Field(ge=2, le=1000)
    """In each nursery."""


class CalibrationDropped(Model):
    """The calibration that was asked for failed too often: the one before it stays."""

    kind: Literal["calibration_dropped"] = "calibration_dropped"
    detail: str


class Spread(Model):
    """How far pairs of a record with itself lie apart, and what that can prove; percent."""

    sd_screen: float = Field(gt=0)
    sd_confirm: float = Field(gt=0)
    resolution: float | None


class SpreadUpdated(Model):
    """Another solution became the record and was compared with itself: so much do pairs spread now."""

    kind: Literal["spread_updated"] = "spread_updated"
    record: str
    result: Result | None
    """None where the guard could not do it: then the spread stays what it was."""
    sd_screen: float = Field(gt=0)
    """Percent, as the next two."""
    sd_confirm: float = Field(gt=0)
    resolution: float | None
    machine: str
    detail: str


class Suspected(Model):
    """The record was slower than published beside the anchor, or failed; it is measured again."""

    kind: Literal["suspected"] = "suspected"
    record: str
    reason: Literal["record_drifted", "record_failed"]
    detail: str


class Remeasured(Model):
    """A suspected record was measured against the seed, with no candidate near it."""

    kind: Literal["remeasured"] = "remeasured"
    record: str
    result: Result | None
    """None where the guard could not do it: then the record stands."""
    withdrawn: str
    """Reason code, or empty where it stands."""
    machine: str
    detail: str


class Canary(Model):
    """The record was compared with itself, as it is or with a planted delay."""

    kind: Literal["canary"] = "canary"
    sort: Literal["same", "delayed"]
    record: str
    planted: float = Field(ge=0)
    """Delay in percent; 0 for `same`."""
    result: Result | None
    """None where the guard could not do it: then it says nothing."""
    p_value: float | None
    """Exact signed-rank test: two-sided for `same`, for slower where delayed."""
    spread: Spread | None = None
    """What is planned with from here on. None where a delay was planted or nothing was measured, and in ledgers
    of before canaries gave it."""
    machine: str
    detail: str


class Quarantined(Model):
    """The canaries were an alarm: nothing is judged until the device is calibrated again."""

    kind: Literal["quarantined"] = "quarantined"
    detail: str
