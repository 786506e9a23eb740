"""What a report says of the device that was measured on."""

from kernelarc_mcp.reporting.document import Document


def device_paragraph(document: Document) -> tuple[bool, str]:
    """Return whether something is missing that a reader must know, and what was measured on."""
    device = document.measured_on
    machine = device.machine or "a machine that is not recorded yet"
    if not device.device.startswith("cuda"):
        versions = device.toolchain or "versions of compilers and packages were not recorded"
        return False, f"Measured on the CPU of {machine}; {versions}."
    if device.gpu:
        driver = f"driver {device.driver}" if device.driver else "its driver was not recorded"
        return not device.driver, f"Measured on {device.gpu}, {driver}, in {machine}."
    calibration = document.calibration
    if calibration is None:
        return True, "GPU model and driver are not recorded yet: nothing was calibrated."
    evidence = "none"
    if (rulers := calibration.rulers) is not None:
        evidence = f"copies {rulers.copy_bytes_per_second / 1e9:.0f} GB/s"
        for name, rate in list(rulers.matrix_flops_per_second.items())[:1]:
            evidence += f", {name} products {rate / 1e12:.0f} TFLOPS"
    why = "" if device.toolchain else " (this campaign is older than that)"
    return True, f"GPU model and driver were not recorded{why}; nearest evidence: {evidence}."


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
    lines.append(("Versions", device.toolchain or "not recorded"))
    lines += _rulers(document)
    for word, count in device.held_down.items():
        lines.append(("Clocks held down", f"{word}, after {count} of {device.blocks} blocks"))
    if device.others:
        lines.append(("Other processes", f"on the device beside {device.others} blocks"))
    lines.append(("Problem", f"{document.problem}, digest {document.problem_digest}"))
    lines.append(("Seed", f"digest {document.seed_digest}"))
    if document.record_digest is not None and document.record_digest != document.seed_digest:
        lines.append(("Record", f"digest {document.record_digest}"))
    rows = f"{document.ledger_rows} rows, the last with hash {document.ledger_head}"
    lines.append(("Ledger", rows))
    return lines


def _rulers(document: Document) -> list[tuple[str, str]]:
    """Return what was taken off each time, and what the device can do at best."""
    rulers = document.calibration.rulers if document.calibration is not None else None
    cold = document.settings.schedule.evict_bytes != 0
    caches = (
        "Caches are cold: they are evicted before each." if cold else "Caches are left as found."
    )
    if rulers is None:
        return [("Timed calls", caches)]
    empty = rulers.empty_kernel_ns
    off = "Nothing is taken off the times of calls." if empty is None else (
        f"A window around an empty kernel takes {empty / 1e3:.1f} us: that is taken off every window,"
        " so times here are of the call alone."
    )  # fmt: skip
    best = (
        f"writes {rulers.write_bytes_per_second / 1e9:.0f} GB/s,"
        f" copies {rulers.copy_bytes_per_second / 1e9:.0f} GB/s"
    )
    rates = [f"{name} {r / 1e12:.0f}" for name, r in rulers.matrix_flops_per_second.items()]
    if rates:
        best += f", matrix products {', '.join(rates)} TFLOPS"
    return [
        ("Timed calls", f"{off} {caches}"),
        ("Device at best", f"{best} (with the calibration)"),
    ]
