"""What a GPU's machine code holds, from the text of a disassembler; light."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from kernelarc_guard.profile_model import MachineCode

_INSTRUCTION: Final = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<op>[A-Z][A-Z0-9_]*)(?P<mods>(?:\.[\w:]+)*)"
)
_MATRIX: Final = re.compile(r"(?:[HQIBD]G?MMA|UTC\w*MMA)")
_TELLING: Final = (
    "FFMA",
    "HFMA2",
    "DFMA",
    "MUFU",
    "BAR",
    "SYNCS",
    "ATOMG",
    "RED",
    "SHFL",
    "LDSM",
    "LDS",
    "STS",
    "BSSY",
)
_ASYNCHRONOUS: Final = ("LDGSTS", "UTMALDG", "UBLKCP", "UTMASTG", "UTMAREDG")
"""Copies that need no registers: from global to shared memory, and the bulk copies of sm_90."""


def read_sass(text: str) -> MachineCode:
    """Count the instructions in the text of ``cuobjdump --dump-sass`` or ``nvdisasm``."""
    matrix: Counter[str] = Counter()
    loads: Counter[str] = Counter()
    stores: Counter[str] = Counter()
    other: Counter[str] = Counter()
    instructions = spilled = stored = 0
    for line in text.splitlines():
        found = _INSTRUCTION.match(line)
        if found is None:
            continue
        op, modifiers = found["op"], found["mods"].split(".")[1:]
        if op == "NOP":
            continue
        instructions += 1
        if _MATRIX.fullmatch(op):
            matrix[op] += 1
        elif op == "LDG":
            loads[_width(modifiers)] += 1
        elif op == "STG":
            stores[_width(modifiers)] += 1
        elif op in _ASYNCHRONOUS:
            (stores if op in ("UTMASTG", "UTMAREDG") else loads)[op] += 1
        elif op == "LDL":
            spilled += 1
        elif op == "STL":
            stored += 1
        elif op in _TELLING:
            other[op] += 1
    return MachineCode(
        instructions=instructions,
        matrix=dict(matrix.most_common()),
        loads=dict(loads.most_common()),
        stores=dict(stores.most_common()),
        spill_loads=spilled,
        spill_stores=stored,
        other=dict(other.most_common()),
    )


def _width(modifiers: Iterable[str]) -> str:
    """Return the bits that each thread moves."""
    for one in modifiers:
        if one in ("64", "128", "256"):
            return one
        if one in ("U8", "S8"):
            return "8"
        if one in ("U16", "S16"):
            return "16"
    return "32"
