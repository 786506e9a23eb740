"""Which inputs have the same values in every draw, so that a kernel could leave them out."""

import torch

from kernelarc_guard.constants import constant_inputs
from kernelarc_guard.definition import Definition
from kernelarc_guard.inputs import make_inputs
from kernelarc_guard.workload import Workload

WORKLOAD = Workload(uuid="w", axes={"rows": 4, "hidden": 8})


def _definition(**keys: object) -> Definition:
    return Definition.model_validate(
        {
            "name": "norm",
            "axes": {"rows": {"type": "var"}, "hidden": {"type": "var"}},
            "inputs": {
                "x": {"shape": ["rows", "hidden"], "dtype": "float32"},
                "norm_weight": {"shape": ["hidden"], "dtype": "float32"},
                "codes": {"shape": ["rows", "hidden"], "dtype": "float8_e4m3fn"},
            },
            "outputs": {"y": {"shape": ["rows", "hidden"], "dtype": "float32"}},
            "reference": "def run(x, norm_weight, codes):\n    return x * norm_weight * codes.float()\n",
            "kernelarc": keys,
        }
    )


def _found(definition: Definition) -> list[str]:
    draws = [make_inputs(definition, WORKLOAD, seed) for seed in (1, 2)]
    weight = draws[0]["norm_weight"]
    assert isinstance(weight, torch.Tensor) and bool((weight == 1).all())
    return constant_inputs(definition, WORKLOAD, draws)


def test_ones_that_take_values_of_other_kinds_are_not_constant() -> None:
    assert _found(_definition()) == []


def test_ones_of_a_static_input_are_varied_too() -> None:
    assert _found(_definition(static_inputs=["norm_weight"])) == []
