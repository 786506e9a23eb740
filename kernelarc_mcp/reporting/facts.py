"""What a report says of the device, and the commands that repeat it."""

from kernelarc_mcp.noise import rulers_line
from kernelarc_mcp.reporting.document import Document


def device_lines(document: Document) -> list[tuple[str, str]]:
    """Return names and values of what was measured on; what the ledger does not tell is left out."""
    device = document.measured_on
    lines = [("Device", device.device), ("Machine", device.machine or "not recorded yet")]
    if device.sm_mhz is not None:
        lines.append(("Clock", f"{device.sm_mhz:.0f} MHz, median of {device.blocks} timed blocks"))
    if device.power_w is not None:
        lines.append(("Power", f"{device.power_w:.0f} W, median"))
    if device.temperature_c is not None:
        lines.append(("Temperature", f"{device.temperature_c:.0f} °C, median"))
    if device.toolchain:
        lines.append(("Toolchain", device.toolchain))
    if device.device.startswith("cuda") and "GPU " not in device.toolchain:
        lines.append(
            ("GPU", "its name is not among this campaign's rows; the rulers tell its kind")
        )
    if document.calibration is not None and document.calibration.rulers is not None:
        said = f"{rulers_line(document.calibration.rulers)} (measured with the calibration)"
        lines.append(("At best", said))
    for word, count in device.held_down.items():
        lines.append(("Clocks held down", f"{word}, after {count} of {device.blocks} blocks"))
    if device.others:
        lines.append(("Other processes", f"on the device beside {device.others} blocks"))
    lines.append(("Problem", f"{document.problem}, digest {document.problem_digest}"))
    lines.append(("Seed", f"digest {document.seed_digest}"))
    if document.record_digest is not None and document.record_digest != document.seed_digest:
        lines.append(("Record", f"digest {document.record_digest}"))
    lines.append(("kernelarc-mcp", document.version))
    return lines


def commands(document: Document) -> list[tuple[str, str]]:
    """Return commands with what they do, for somebody who has the campaign's directory as DIR."""
    found = [
        (f"pip install kernelarc-mcp=={document.version}", "and its extra `guard`, for judging"),
        ("kernelarc-mcp verify DIR", "compute every counter and verdict again; needs no device"),
    ]
    if document.record.agent is not None:
        record = document.record.submission
        found += [
            (
                f"kernelarc-mcp reproduce DIR {record}",
                "judge the record again, on a device of this kind",
            ),
            ("kernelarc-mcp export DIR --to folder --out PATH", "the kernel, its test and README"),
            ("kernelarc-mcp score DIR", "how far it is from what the device can do"),
        ]
    return [*found, ("kernelarc-mcp report DIR", "this report")]
