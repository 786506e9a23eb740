"""Problems, honest kernels and a judge for the attacks in `tests/attacks/`.

An attack's first comment lines say what it is after:

    # aim: ...               # how: ...               # problem: sine
    # succeeds-if: ...       # record: sine.py        # cflags: ... (one line for each flag)

The record is the honest kernel of the problem unless `record` names another file.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases import PROBLEMS, make_problem

from kernelarc_guard.problem import Problem
from kernelarc_guard.solution import Solution, make_solution, read_solution

FOLDER = Path(__file__).parent / "attacks"
_F32 = "float32"
_MATRIX = (["r", "c"], _F32)
_TIGHT = (1e-4, 1e-4)
_SINE = "    return torch.sin(x) * 3\n"
_SOFT = "    return torch.softmax(x, -1)\n"
_NORM = "    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * norm_weight\n"
_MASKED = "    return torch.softmax(x + attention_mask, -1)\n"
_HEADS = "    return x.unsqueeze(0).expand(g, *x.shape).contiguous()\n"
_DRAW_HEADS = (
    "\ndef draw(axes, device):\n"
    "    return {'x': torch.randn(axes['r'], axes['c']), 'g': axes['h']}\n"
)

_OWN: dict[str, dict[str, Any]] = {
    one["definition"]["name"]: one
    for one in [
        make_problem("sine", {"x": _MATRIX}, ["r", "c"], _SINE, [{"r": 64, "c": 2048}]),
        make_problem("sine_long", {"x": _MATRIX}, ["r", "c"], _SINE, [{"r": 256, "c": 2048}]),
        make_problem(
            "sine_pair",
            {"x": _MATRIX},
            ["r", "c"],
            _SINE,
            [{"r": 8, "c": 1024}, {"r": 16, "c": 1024}],
        ),
        make_problem(
            "turn",
            {"x": _MATRIX},
            ["c", "r"],
            "    return x.t().contiguous()\n",
            [{"r": 768, "c": 1024}],
        ),
        make_problem(
            "heads",
            {"x": _MATRIX, "g": (None, "int64")},
            ["h", "r", "c"],
            _HEADS,
            [{"r": 64, "c": 512, "h": 32}],
            _DRAW_HEADS,
        ),
        make_problem(
            "above",
            {"x": _MATRIX},
            ["r", "c"],
            "    return x > -3.5\n",
            [{"r": 128, "c": 4096}],
            dtype="bool",
        ),
        make_problem(
            "soft", {"x": _MATRIX}, ["r", "c"], _SOFT, [{"r": 64, "c": 2048}], tolerance=_TIGHT
        ),
        make_problem(
            "norm",
            {"x": _MATRIX, "norm_weight": (["c"], _F32)},
            ["r", "c"],
            _NORM,
            [{"r": 64, "c": 2048}],
        ),
        make_problem(
            "masked",
            {"x": (["n", "n"], _F32), "attention_mask": (["n", "n"], _F32)},
            ["n", "n"],
            _MASKED,
            [{"n": 384}],
            tolerance=_TIGHT,
        ),
        make_problem(
            "project_large",
            {"x": (["m", "k"], _F32), "weight": (["k", "n"], _F32)},
            ["m", "n"],
            "    return x @ weight\n",
            [{"m": 4, "k": 1024, "n": 512}],
            static_inputs=["weight"],
        ),
    ]
}
HONEST = {
    "sine": "sine.cpp",
    "sine_long": "sine.cpp",
    "sine_pair": "sine.cpp",
    "turn": "turn.py",
    "heads": "heads.py",
    "above": "above.cpp",
    "soft": "soft.cpp",
    "norm": "norm.cpp",
    "masked": "masked.cpp",
    "project_large": "project.cpp",
}


@dataclass(frozen=True)
class Attack:
    """One attack and what it says about itself."""

    name: str
    path: Path
    aim: str
    succeeds_if: str
    problem: Problem
    candidate: Solution
    record: Solution


def attacks(wanted: Callable[[str], bool] = lambda name: True) -> list[Attack]:
    """Return the attacks by name."""
    files = [
        path
        for path in sorted(FOLDER.iterdir())
        if path.suffix in (".py", ".cpp") and path.stem != "attack"
    ]
    return [_attack(path) for path in files if wanted(path.stem)]


def _attack(path: Path) -> Attack:
    said = _said(path)
    one = said["problem"][0]
    problem = Problem.model_validate(PROBLEMS.get(one) or _OWN[one])
    named = said.get("record", [HONEST[one]])[0]
    record = FOLDER / named if (FOLDER / named).is_file() else FOLDER / "honest" / named
    return Attack(
        path.stem,
        path,
        said["aim"][0],
        said["succeeds-if"][0],
        problem,
        _solution(path, problem),
        _solution(record, problem),
    )


def _said(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, text in re.findall(r"^(?:#|//) ([\w-]+): (.+)$", path.read_text(), re.MULTILINE):
        found.setdefault(key, []).append(text)
    return found


def _solution(path: Path, problem: Problem) -> Solution:
    solution = read_solution(path, problem.definition)
    said = _said(path)
    fields = solution.model_dump()
    shared = "attack.h" if solution.is_native else "attack.py"
    if re.search(r'^#include "attack\.h"|^import attack$', path.read_text(), re.MULTILINE):
        content = (FOLDER / shared).read_text()
        fields["sources"].append({"path": shared, "content": content})
    if solution.is_native:
        fields["spec"]["compile_options"] = {
            "cflags": said.get("cflags", []),
            "ld_flags": said.get("ld_flags", []),
        }
    return make_solution(fields)
