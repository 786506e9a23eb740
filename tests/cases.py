"""Small problems and a runner for the folders of exploits and of honest kernels.

A folder's `candidate.py` (or `candidate.cpp`) says in its first lines what it expects:

    # problem: scale_rows
    # expects: REVERT stale_output correctness

`expects: right` is a kernel that must pass; `observes: word` is a word of some observation.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guard_process import PARAMETERS, SCHEDULE, Guard

from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Result
from kernelarc_guard.solution import read_solution, reference_solution


def make_problem(
    name: str,
    inputs: dict[str, tuple[list[str] | None, str]],
    output: list[str],
    body: str,
    sizes: list[dict[str, int]],
    generate: str = "",
    dtype: str = "float32",
    tolerance: tuple[float, float] = (1e-2, 1e-2),
    **kernelarc: Any,
) -> dict[str, Any]:
    reference = f"import torch\n\ndef run({', '.join(inputs)}):\n{body}\n{generate}"
    kind = "custom" if generate else "random"
    return {
        "definition": {
            "name": name,
            "axes": {axis: {"type": "var"} for axis in sizes[0]},
            "inputs": {n: {"shape": shape, "dtype": dt} for n, (shape, dt) in inputs.items()},
            "outputs": {"y": {"shape": output, "dtype": dtype}},
            "reference": reference,
            "custom_inputs_entrypoint": "draw" if generate else None,
            "kernelarc": kernelarc,
        },
        "workloads": [
            {
                "uuid": f"w{index}",
                "axes": axes,
                "inputs": {n: {"type": kind} for n in inputs},
                "tolerance": {
                    "max_atol": tolerance[0],
                    "max_rtol": tolerance[1],
                    "required_matched_ratio": 1.0,
                },
            }
            for index, axes in enumerate(sizes)
        ],
    }


_F32 = "float32"
_MATRIX = (["r", "c"], _F32)
_SHAPES = [{"r": 5, "c": 40}, {"r": 24, "c": 96}]
_UNIT = "    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * norm_weight\n"
_APPEND = "    out = state.clone()\n    out[at:at + new.shape[0]] = new\n    return out\n"
_DRAW_APPEND = (
    "\ndef draw(axes, device):\n    r, c = axes['r'], axes['c']\n"
    "    return {'state': torch.randn(r, c), 'new': torch.randn(2, c), 'at': axes['place']}\n"
)
_DRAW_RANGE = (
    "\ndef draw(axes, device):\n    x = torch.rand(axes['r'], axes['c'])\n"
    "    return {'x': (x - 0.5) * (80 if axes['wide'] else 1)}\n"
)
_DRAW_HOLES = (
    "\ndef draw(axes, device):\n    x = torch.randn(axes['r'], axes['c'])\n"
    "    x[0, 0], x[1, 1] = float('nan'), float('inf')\n    return {'x': x}\n"
)
_DRAW_STRIDED = (
    "\ndef draw(axes, device):\n    return {'x': torch.randn(axes['c'], axes['r']).t()}\n"
)
PROBLEMS: dict[str, dict[str, Any]] = {
    one["definition"]["name"]: one
    for one in [
        make_problem(
            "scale_rows", {"x": _MATRIX, "norm_weight": (["c"], _F32)}, ["r", "c"], _UNIT, _SHAPES
        ),
        make_problem(
            "scale_rows_by_static",
            {"x": _MATRIX, "norm_weight": (["c"], _F32)},
            ["r", "c"],
            _UNIT,
            _SHAPES,
            static_inputs=["norm_weight"],
        ),
        make_problem(
            "long_rows",
            {"x": _MATRIX, "weight": (["c"], _F32)},
            ["r", "c"],
            "    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight\n",
            [{"r": 4, "c": 8192}],
            tolerance=(1e-3, 1e-3),
        ),
        make_problem("bend", {"x": _MATRIX}, ["r", "c"], "    return torch.sin(x) * 3\n", _SHAPES),
        make_problem(
            "bend_again",
            {"x": _MATRIX},
            ["r", "c"],
            "    return torch.sin(x) * 3\n",
            _SHAPES,
            determinism="bitwise",
        ),
        make_problem(
            "limit",
            {"x": _MATRIX},
            ["r", "c"],
            "    return 20 * torch.tanh(x / 20)\n",
            [{"r": 6, "c": 40, "wide": 0}, {"r": 6, "c": 40, "wide": 1}],
            _DRAW_RANGE,
        ),
        make_problem(
            "holes",
            {"x": _MATRIX},
            ["r", "c"],
            "    return x.abs()\n",
            _SHAPES,
            _DRAW_HOLES,
            nonfinite_outputs=True,
        ),
        make_problem(
            "sideways", {"x": _MATRIX}, ["r", "c"], "    return x * 2\n", _SHAPES, _DRAW_STRIDED
        ),
        make_problem(
            "project",
            {"x": (["m", "k"], _F32), "weight": (["k", "n"], _F32)},
            ["m", "n"],
            "    return x @ weight\n",
            [{"m": 8, "k": 48, "n": 16}, {"m": 32, "k": 64, "n": 48}],
            static_inputs=["weight"],
        ),
        make_problem(
            "project_narrow",
            {"x": (["m", "k"], "bfloat16"), "weight": (["k", "n"], "bfloat16")},
            ["m", "n"],
            "    return x @ weight\n",
            [{"m": 8, "k": 48, "n": 16}],
            dtype="bfloat16",
            tolerance=(0.15, 0.02),
        ),
        make_problem(
            "spread",
            {"x": _MATRIX},
            ["r", "c"],
            "    return torch.softmax(x, -1)\n",
            [{"r": rows, "c": 40} for rows in range(3, 13)],
            tolerance=(1e-4, 1e-4),
        ),
        make_problem(
            "masked",
            {"x": (["n", "n"], _F32), "attention_mask": (["n", "n"], _F32)},
            ["n", "n"],
            "    return torch.softmax(x + attention_mask, -1)\n",
            [{"n": 24}, {"n": 60}],
        ),
        make_problem("add_up", {"x": (["n"], _F32)}, [], "    return x.sum()\n", [{"n": 50_000}]),
        make_problem(
            "append",
            {"state": _MATRIX, "new": (["2", "c"], _F32), "at": (None, "int64")},
            ["r", "c"],
            _APPEND,
            [{"r": 6, "c": 8, "place": 2}, {"r": 30, "c": 16, "place": 0}],
            _DRAW_APPEND,
            tolerance=(0.0, 0.0),
            mutable_inputs=["state"],
        ),
    ]
}


@dataclass(frozen=True)
class Case:
    """One folder's candidate and what it says about itself."""

    kind: str
    path: Path
    problem: str
    expects: str
    observes: str | None

    @property
    def reason(self) -> str | None:
        """Return the reason code it expects; None for a right kernel."""
        return None if self.expects == "right" else self.expects.split()[1]


def cases(folder: Path) -> list[Case]:
    """Return every case of a folder, by name."""
    return [_case(path) for path in sorted(folder.glob("*/candidate.*"))]


def _case(path: Path) -> Case:
    said = dict(re.findall(r"^(?:#|//) (\w+): (.+)$", path.read_text(), re.MULTILINE))
    return Case(path.parent.name, path, said["problem"], said["expects"], said.get("observes"))


def judged(guard: Guard, case: Case) -> Result:
    """Run a case through the gate, to the end of correctness or, where timing decides, the screen."""
    problem = Problem.model_validate(PROBLEMS[case.problem])
    solution = read_solution(case.path, problem.definition)
    return guard.ask(
        "screen",
        problem=problem.model_dump(),
        record=reference_solution(problem.definition).model_dump(),
        candidate=solution.model_dump(),
        schedule=SCHEDULE | {"calls": 30},
        parameters=PARAMETERS | {"blocks_screen": 4, "blocks_confirm": 2},
        correctness_only=not case.expects.endswith("timing"),
    )
