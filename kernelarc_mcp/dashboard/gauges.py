"""Clock, power and temperature of a device beside its timed blocks, kept up verdict by verdict."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kernelarc_guard.device_state import DeviceState
from kernelarc_guard.model import Model


class Range(Model):
    """What one gauge showed."""

    lowest: float
    highest: float


class Gauges(Model):
    """Ranges over the timed blocks; null where the device did not tell."""

    blocks: int
    sm_mhz: Range | None
    power_w: Range | None
    temperature_c: Range | None


@dataclass
class Gauged:
    """Follows the gauges."""

    _blocks: int = 0
    _ranges: dict[str, Range] = field(default_factory=dict)

    def add(self, states: Iterable[DeviceState]) -> None:
        """Count what was read after blocks."""
        for state in states:
            self._read(state)

    def look(self) -> Gauges:
        """Return the ranges so far."""
        found = self._ranges
        return Gauges(
            blocks=self._blocks,
            sm_mhz=found.get("sm_mhz"),
            power_w=found.get("power_w"),
            temperature_c=found.get("temperature_c"),
        )

    def _read(self, state: DeviceState) -> None:
        self._blocks += 1
        read = (("sm_mhz", state.sm_mhz), ("power_w", state.power_w))
        for name, value in (*read, ("temperature_c", state.temperature_c)):
            if value is None:
                continue
            known = self._ranges.get(name)
            self._ranges[name] = Range(
                lowest=value if known is None else min(known.lowest, value),
                highest=value if known is None else max(known.highest, value),
            )
