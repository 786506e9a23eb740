"""A calibration as people read it: its age, what it resolves, and what to be warned of."""

from datetime import datetime, timedelta

from kernelarc_guard.decide import Calibration
from kernelarc_guard.rule import Rulers
from kernelarc_mcp.machine import describe_machine
from kernelarc_mcp.views import CalibrationView, RulersView

OLD = timedelta(days=7)
"""From this age on a calibration is warned of."""
COARSE = 15.0
"""Percent: above this resolution most of what is worth keeping cannot be proven."""


def age_of(calibration: Calibration, now: datetime) -> timedelta:
    """Return how long ago a calibration was measured."""
    return now - datetime.fromisoformat(calibration.at)


def calibration_view(calibration: Calibration, machine: str, now: datetime) -> CalibrationView:
    """Return what to show of a calibration that was measured on `machine`; empty: not known."""
    return CalibrationView(
        at=calibration.at,
        pairs=calibration.pairs,
        nurseries=max(1, len(calibration.nurseries)),
        blocks_per_pair=calibration.blocks_confirm,
        sd_percent=calibration.sd_confirm,
        spread_pairs=calibration.spread_pairs,
        mean_percent=calibration.mean,
        shared_bias_percent=calibration.shared_bias,
        delta_percent=calibration.delta,
        resolution_percent=calibration.resolution,
        biased=calibration.biased,
        rulers=_rulers_view(calibration.rulers),
        toolchain=calibration.toolchain,
        note=calibration.note,
        warnings=warnings(calibration, machine, now),
    )


def warnings(calibration: Calibration, machine: str, now: datetime) -> list[str]:
    """Return what speaks against trusting a calibration, one sentence each."""
    found = []
    age = age_of(calibration, now)
    if age >= OLD:
        found.append(f"It is {age.days} days old: calibrate again.")
    here = describe_machine()
    if machine and machine != here:
        found.append(f"The machine changed: it was measured on {machine}, this is {here}.")
    if calibration.resolution is not None and calibration.resolution > COARSE:
        found.append(
            f"Pairs differ so much that only gains above about {calibration.resolution:.0f} % can be"
            " proven: quieten the machine and calibrate again."
        )
    if calibration.biased:
        found.append(
            f"The path is biased: identical arms differ by {calibration.mean:+.3f} % on average,"
            " more than chance explains. Do not trust verdicts here until that is repaired."
        )
    return found


def one_line(calibration: Calibration) -> str:
    """Return a calibration's numbers on one line."""
    nurseries = max(1, len(calibration.nurseries))
    smallest = "" if calibration.resolution is None else f"{calibration.resolution:.2f} %"
    spread = calibration.spread_pairs
    since = "" if spread is None else f" of {spread} pairs of the record"
    return (
        f"{calibration.pairs} pairs in {nurseries} {'nursery' if nurseries == 1 else 'nurseries'},"
        f" sd {calibration.sd_confirm:.2f} %{since}, delta {calibration.delta:.2f} %,"
        f" resolves {smallest or 'unknown'}; {rulers_line(calibration.rulers)}"
    )


def toolchain_line(calibration: Calibration) -> str:
    """Return the versions a calibration was measured with on one line; empty where they are not known."""
    return ", ".join(f"{name} {version}" for name, version in calibration.toolchain.items())


def rulers_line(rulers: Rulers | None) -> str:
    """Return what the device can do at best on one line."""
    view = _rulers_view(rulers)
    if view is None:
        return "no rulers: calibrate again"
    memory = (
        f"writes {view.write_gb_per_second:.1f} GB/s, copies {view.copy_gb_per_second:.1f} GB/s"
    )
    if view.empty_kernel_us is None:
        return f"empty window {view.empty_window_us:.1f} us, {memory}"
    rates = ", ".join(f"{name} {rate:.0f}" for name, rate in view.matrix_tflops.items())
    return (
        f"empty queued window {view.empty_kernel_us:.1f} us (taken off), {memory}, products {rates}"
        " TFLOPS"
    )


def _rulers_view(rulers: Rulers | None) -> RulersView | None:
    if rulers is None:
        return None
    return RulersView(
        empty_window_us=rulers.empty_window_ns / 1e3,
        write_gb_per_second=rulers.write_bytes_per_second / 1e9,
        copy_gb_per_second=rulers.copy_bytes_per_second / 1e9,
        empty_kernel_us=None if rulers.empty_kernel_ns is None else rulers.empty_kernel_ns / 1e3,
        matrix_tflops={n: r / 1e12 for n, r in rulers.matrix_flops_per_second.items()},
    )
