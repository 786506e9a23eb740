"""How a candidate wants to be called, where its text leaves no doubt."""

import re

from kernelarc_guard import pyast
from kernelarc_guard.solution import NATIVE_LANGUAGES

_EXPORTED = r"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*{}\s*,\s*(?:\w+::)*(\w+)\s*\)"


def fills_outputs(text: str, entry: str, language: str, binding: str, arguments: int) -> bool:
    """Say whether the function `entry` of a file can only be meant to fill its outputs.

    `arguments` is how many inputs and outputs there are. That is so with the binding dlpack, which
    cannot return a tensor, for a C++ function that returns nothing, and for a Python function that
    takes all of them.
    """
    if language in NATIVE_LANGUAGES:
        return binding == "dlpack" or (binding == "tvm-ffi" and _returns_nothing(text, entry))
    try:
        found = pyast.functions(pyast.parse(text)).get(entry)
    except ValueError:
        # The policy stage reports syntax with a verdict.
        return False
    return found is not None and pyast.takes_exactly(found, arguments)


def _returns_nothing(text: str, entry: str) -> bool:
    exported = re.search(_EXPORTED.format(re.escape(entry)), text)
    return exported is not None and bool(re.search(rf"\bvoid\s+{exported[1]}\s*\(", text))
