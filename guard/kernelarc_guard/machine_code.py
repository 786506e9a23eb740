"""Comparing what two solutions' machine code holds; pure."""

from collections.abc import Iterator

from kernelarc_guard.profile_model import MachineCode


def difference(record: MachineCode, candidate: MachineCode) -> dict[str, str]:
    """Return each counter that differs, as `record -> candidate`, the largest change first."""
    before, after = dict(_flat(record)), dict(_flat(candidate))
    changed = [
        (abs(after.get(name, 0) - before.get(name, 0)), name)
        for name in {**before, **after}
        if after.get(name, 0) != before.get(name, 0)
    ]
    changed.sort(key=lambda one: (-one[0], one[1]))
    return {name: f"{before.get(name, 0)} -> {after.get(name, 0)}" for _, name in changed}


def _flat(code: MachineCode) -> Iterator[tuple[str, int]]:
    yield "instructions", code.instructions
    yield "spill loads", code.spill_loads
    yield "spill stores", code.spill_stores
    for name, count in code.matrix.items():
        yield name, count
    for kind, counts in (("load", code.loads), ("store", code.stores)):
        for width, count in counts.items():
            yield f"{kind} {width}", count
    for name, count in code.other.items():
        yield name, count
