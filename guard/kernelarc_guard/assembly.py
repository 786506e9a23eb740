"""What an x86 processor's machine code holds, from the text of a disassembler; light."""

import re
from collections import Counter
from typing import Final

from kernelarc_guard.profile_model import MachineCode

_INSTRUCTION: Final = re.compile(
    r"^\s*[0-9a-f]+:\t(?:[0-9a-f]{2} )+\s*\t(?P<op>\w+)(?P<rest>[^#<]*)"
)
_PLAIN: Final = re.compile(r"^\s*[0-9a-f]+:\t(?P<op>[a-z]\w*)(?P<rest>[^#<]*)")
_WIDTHS: Final = {"zmm": "512", "ymm": "256", "xmm": "128"}
_STACK: Final = re.compile(r"\(%(?:rsp|rbp)")
_TELLING: Final = {
    "fma": re.compile(r"vf(?:n?m(?:add|sub)|maddsub)\w*p[sdh]"),
    "scalar fma": re.compile(r"vfn?m(?:add|sub)\w*s[sd]"),
    "divide": re.compile(r"v?div[ps][sd]"),
    "square root": re.compile(r"v?sqrt[ps][sd]"),
    "gather": re.compile(r"v(?:p?gather)\w+"),
    "call": re.compile(r"callq?"),
    "prefetch": re.compile(r"prefetch\w+"),
}


def read_assembly(text: str) -> MachineCode:
    """Count the instructions in the text of ``objdump -d`` in AT&T form.

    Loads and stores are those of vector registers, by their bits; the spills among them are those
    that go through the stack.
    """
    loads: Counter[str] = Counter()
    stores: Counter[str] = Counter()
    other: Counter[str] = Counter()
    instructions = spill_loads = spill_stores = 0
    for line in text.splitlines():
        found = _INSTRUCTION.match(line) or _PLAIN.match(line)
        if found is None or found["op"].startswith("nop"):
            continue
        instructions += 1
        op, operands = found["op"], found["rest"].strip()
        for name, pattern in _TELLING.items():
            if pattern.fullmatch(op):
                other[name] += 1
        width = next((bits for kind, bits in _WIDTHS.items() if f"%{kind}" in operands), "")
        if "mov" not in op or not width or "(" not in operands:
            continue
        # AT&T form: the target comes last.
        is_store = operands.endswith(")")
        if _STACK.search(operands):
            spill_stores, spill_loads = spill_stores + is_store, spill_loads + (not is_store)
        else:
            (stores if is_store else loads)[width] += 1
    return MachineCode(
        instructions=instructions,
        loads=dict(loads.most_common()),
        stores=dict(stores.most_common()),
        spill_loads=spill_loads,
        spill_stores=spill_stores,
        other=dict(other.most_common()),
    )
