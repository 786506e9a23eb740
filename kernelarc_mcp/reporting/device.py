"""What a campaign measured on, as its rows tell it."""

from statistics import median

from kernelarc_guard.device_state import DeviceState
from kernelarc_guard.model import Model
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.noise import toolchain_line


class DeviceFacts(Model):
    """The device and its machine; null where the ledger does not tell."""

    device: str
    machine: str
    """In words; empty before the first calibration."""
    toolchain: str = ""
    """Versions the calibration was measured with; empty where they are not known."""
    gpu: str = ""
    """Its model, and the driver's version; empty on a CPU and where they are not known."""
    driver: str = ""
    blocks: int
    """Timed blocks whose device state was recorded."""
    sm_mhz: float | None = None
    """Median over the blocks."""
    power_w: float | None = None
    temperature_c: float | None = None
    held_down: dict[str, int] = {}
    """What held clocks down -> after how many blocks."""
    others: int = 0
    """Blocks beside which another process had a context on the device."""


def device_facts(campaign: Campaign, state: CampaignState) -> DeviceFacts:
    """Return what the judgements of a campaign say of its device."""
    results = [
        result
        for attempt in state.attempts.values()
        for result in (attempt.screen, attempt.confirmation)
        if result is not None
    ]
    versions = state.calibration.toolchain if state.calibration else {}
    states = [one for result in results for one in result.device_states]
    held: dict[str, int] = {}
    for word in (word for one in states for word in one.held_by or []):
        held[word] = held.get(word, 0) + 1
    return DeviceFacts(
        device=campaign.settings.device,
        machine=state.calibration_machine,
        toolchain=toolchain_line(state.calibration) if state.calibration else "",
        gpu=versions.get("GPU", ""),
        driver=versions.get("driver", ""),
        blocks=len(states),
        sm_mhz=_median(states, "sm_mhz"),
        power_w=_median(states, "power_w"),
        temperature_c=_median(states, "temperature_c"),
        held_down=held,
        others=sum(bool(one.others) for one in states),
    )


def _median(states: list[DeviceState], name: str) -> float | None:
    values = [value for one in states if (value := getattr(one, name)) is not None]
    return float(median(values)) if values else None
