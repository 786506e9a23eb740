"""What a device is and what solutions are built with beside it: ``python -I -m kernelarc_guard.identity DEVICE``.

Prints one JSON object and ends; takes no lock and opens no context. Light: imports no torch.
"""

import json
import sys

from kernelarc_guard.device_names import device_name
from kernelarc_guard.installed import installed


def identity(place: str) -> dict[str, object]:
    """Return `model`, `unit` (what is its own: a GPU's UUID) and `toolchain` of a torch device."""
    if place == "cpu":
        return {"model": device_name(place), "unit": "cpu", "toolchain": dict(installed(place))}
    from kernelarc_guard.cuda import driver

    number, count = int(place.partition(":")[2]), driver.device_count()
    if number >= count:
        raise driver.NoDriver(f"{place}: this process sees {count} NVIDIA devices")
    return {
        "model": device_name(place),
        "unit": driver.device_uuid(number),
        "toolchain": dict(installed(place)),
    }


if __name__ == "__main__":
    print(json.dumps(identity(sys.argv[1])))
