"""Problem folders written for tests."""

import json
from pathlib import Path
from typing import Any

DEFINITION: dict[str, Any] = {
    "name": "scale",
    "op_type": "elementwise",
    "axes": {
        "n": {"type": "var"},
        "c": {"type": "const", "value": 4},
        "half": {"type": "expr", "expression": "(n * c) // 2"},
    },
    "inputs": {
        "x": {"shape": ["n", "c"], "dtype": "float32"},
        "s": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["n", "c"], "dtype": "float32"}},
    "reference": "def run(x, s):\n    return x * s\n",
}
WORKLOAD: dict[str, Any] = {
    "uuid": "w1",
    "axes": {"n": 3},
    "inputs": {"x": {"type": "random"}, "s": {"type": "scalar", "value": 2.5}},
    "tolerance": {"max_atol": 1e-6, "max_rtol": 1e-5, "required_matched_ratio": 1.0},
}


def write_problem(
    folder: Path,
    definition: dict[str, Any] | None = None,
    workloads: list[dict[str, Any]] | None = None,
) -> Path:
    """Write a problem folder, by default a small correct one."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = DEFINITION if definition is None else definition
    (folder / "definition.json").write_text(json.dumps(chosen))
    lines = [json.dumps(line) for line in ([WORKLOAD] if workloads is None else workloads)]
    (folder / "workload.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def changed(base: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a deep copy with the value at a dotted path replaced, or removed by `...`."""
    copy: dict[str, Any] = json.loads(json.dumps(base))
    *parents, last = path.split(".")
    at = copy
    for key in parents:
        at = at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return copy
