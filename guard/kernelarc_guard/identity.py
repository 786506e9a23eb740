"""What a device is and what solutions are built with beside it: ``python -I -m kernelarc_guard.identity DEVICE``.

Prints one JSON object and ends; takes no lock and opens no context. ``builder`` in place of a device is a
host that only builds. Light: imports no torch.
"""

import json
import sys

from kernelarc_guard.built_with import BUILDER, built_with
from kernelarc_guard.device_names import device_name
from kernelarc_guard.installed import installed, nvcc_version


def identity(place: str) -> dict[str, object]:
    """Return what a torch device, or a builder, is.

    `model`; `unit` (what is its own: a GPU's UUID); `toolchain`; `built_with`, as in that module; and
    `architecture`, which CUDA C++ is compiled for, as in ``90a``.
    """
    unit, architecture = place, ""
    if place == BUILDER:
        toolchain = {**installed("cpu"), "nvcc": nvcc_version()}
        model = device_name("cpu")
    else:
        if place != "cpu":
            from kernelarc_guard.cuda import driver

            number, count = int(place.partition(":")[2]), driver.device_count()
            if number >= count:
                raise driver.NoDriver(f"{place}: this process sees {count} NVIDIA devices")
            unit, architecture = driver.device_uuid(number), driver.architecture(number)
        toolchain, model = dict(installed(place)), device_name(place)
    return {
        "model": model,
        "unit": unit,
        "toolchain": {name: told for name, told in toolchain.items() if told},
        "built_with": built_with(place),
        "architecture": architecture,
    }


if __name__ == "__main__":
    print(json.dumps(identity(sys.argv[1])))
