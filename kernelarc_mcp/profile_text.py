"""A profile as text: what matters first, and never longer than it may be."""

from collections.abc import Mapping
from typing import Final

from kernelarc_guard.profile_model import KernelFacts, MachineCode, Profile
from kernelarc_mcp.timeline_text import timeline_lines

_KERNELS: Final = 3
_PARTS: Final = 6
_SHORTER: Final = ((6, 2), (4, 2), (3, 2), (2, 1), (1, 1))
"""Lines of a timeline and kernels with counters, where all of them do not fit."""
_CHANGES: Final = 8


def profile_lines(profile: Profile, limit: int = 0, *, timed: str = "when judged") -> list[str]:
    """Return a profile's lines; with `limit`, fewer of what there is more of, then the first that fit.

    What is left out is said. `limit` is in characters, line ends included; `timed` says when a call was.
    """
    lines = _lines(profile, timed, _PARTS, _KERNELS)
    if not limit:
        return lines
    if profile.timeline is not None:
        for parts, kernels in _SHORTER:
            if _characters(lines) <= limit:
                return lines
            lines = _lines(profile, timed, parts, kernels)
    return fitted(lines, limit)


def _lines(profile: Profile, timed: str, parts: int, kernels: int) -> list[str]:
    lines = [*_head(profile, timed)]
    if profile.timeline is not None:
        lines += timeline_lines(profile.timeline, parts)
    for kernel in profile.kernels[:kernels]:
        lines += _kernel(kernel)
    if len(profile.kernels) > kernels:
        lines.append(f"and {len(profile.kernels) - kernels} more kernels, in the raw report")
    if profile.code is not None:
        lines += _code(profile.code)
    if profile.code_against_record:
        lines.append(f"code, record -> candidate: {_some(profile.code_against_record)}")
    return [*lines, *(f"note: {note}" for note in profile.notes)]


def _characters(lines: list[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def fitted(lines: list[str], limit: int) -> list[str]:
    """Return the first lines that fit into so many characters, the last one saying what is missing."""
    if _characters(lines) <= limit:
        return lines
    kept: list[str] = []
    left = limit
    for index, line in enumerate(lines):
        more = f"[{len(lines) - index} more lines in the raw report]"
        if len(line) + 1 + len(more) + 1 > left:
            return [*kept, more]
        kept.append(line)
        left -= len(line) + 1
    return kept


def _head(profile: Profile, timed: str) -> list[str]:
    lines = [f"{profile.bottleneck}: {profile.why}"]
    if profile.roofs:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in profile.roofs.items())
        lines.append(f"share of each roof: {shares}")
    times = []
    if profile.kernels_us is not None:
        launches = sum(one.launches for one in profile.kernels)
        times.append(f"{profile.kernels_us:.1f} us in {launches} launches")
    if profile.call_us is not None:
        times.append(f"a call took {profile.call_us:.1f} us {timed}")
    if times:
        lines.append("; ".join(times))
    return lines


def _kernel(one: KernelFacts) -> list[str]:
    launches = "" if one.launches == 1 else f", {one.launches} launches"
    lines = [f"{one.name}: {one.microseconds:.1f} us{launches}"]
    facts = [
        _said("DRAM {:.0f} %", one.dram_percent),
        _said("L2 {:.0f} %", one.l2_percent),
        _said("L2 hits {:.0f} %", one.l2_hit_percent),
        _said("multiprocessors {:.0f} %", one.compute_percent),
        _said("matrix units {:.0f} %", one.matrix_percent),
    ]
    occupancy = _said("occupancy {:.0f} %", one.occupancy_percent)
    if occupancy and one.occupancy_limit_percent is not None:
        limited = f", limited by {one.limiter}" if one.limiter else ""
        occupancy += f" of {one.occupancy_limit_percent:.0f} % possible{limited}"
    launch = [
        occupancy,
        _said("{} registers", one.registers),
        _said("{} bytes shared", one.shared_bytes),
        _said("{} blocks", one.blocks),
        _said("of {} threads", one.threads),
        _said("{:.2f} waves", one.waves),
    ]
    for some in (facts, launch):
        joined = ", ".join(fact for fact in some if fact)
        if joined:
            lines.append(f"  {joined}")
    if one.stalls:
        said = ", ".join(f"{reason} {value:g}" for reason, value in one.stalls.items())
        lines.append(f"  waits per instruction: {said}")
    return lines


def _said(form: str, value: float | None) -> str:
    return "" if value is None else form.format(value)


def _code(code: MachineCode) -> list[str]:
    parts = [f"{code.instructions} instructions"]
    for what, counts in (
        ("matrix", code.matrix),
        ("loads by bits", code.loads),
        ("stores by bits", code.stores),
        ("other", code.other),
    ):
        if counts:
            parts.append(f"{what} " + " ".join(f"{name}:{n}" for name, n in counts.items()))
    spills = f"spill loads {code.spill_loads}, spill stores {code.spill_stores}"
    return [f"machine code: {'; '.join(parts)}; {spills}"]


def _some(changes: Mapping[str, str]) -> str:
    shown = [f"{name} {change}" for name, change in list(changes.items())[:_CHANGES]]
    if len(changes) > _CHANGES:
        shown.append(f"{len(changes) - _CHANGES} more")
    return ", ".join(shown)
