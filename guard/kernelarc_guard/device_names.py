"""What a device is called by its vendor."""

from pathlib import Path


def device_name(place: str) -> str:
    """Return the name of a torch device: the GPU's, or the processor's."""
    if place == "cpu":
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        named = (line for line in lines if line.startswith("model name"))
        return next(named, "").partition(":")[2].strip() or "an unnamed processor"
    from kernelarc_guard.cuda import driver

    return driver.device_name(int(place.partition(":")[2]))
