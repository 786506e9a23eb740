"""A small problem, and a campaign on it in a real directory."""

from pathlib import Path

import pytest

from kernelarc_guard.problem import Definition, Problem, TensorSpec, Workload
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings

REFERENCE = "import torch\n\n\ndef run(x, y):\n    return x + y\n"


def make_problem() -> Problem:
    return Problem(
        definition=Definition.model_validate(
            {
                "name": "add",
                "axes": {"n": {"type": "var"}},
                "inputs": {
                    "x": {"shape": ["n"], "dtype": "float32"},
                    "y": {"shape": ["n"], "dtype": "float32"},
                },
                "outputs": {"z": TensorSpec(shape=["n"], dtype="float32")},
                "reference": REFERENCE,
                "op_type": "elementwise",
            }
        ),
        workloads=[Workload(uuid="w8", axes={"n": 8}), Workload(uuid="w9", axes={"n": 9})],
    )


def make_settings(**changes: object) -> CampaignSettings:
    values = {"name": "test", "problem": "add", "agents": ["ada", "bob"], "attempts": 20}
    return CampaignSettings.model_validate(values | changes)


def make_campaign(folder: Path, **changes: object) -> list[tuple[str, str]]:
    return Host.create(folder, make_settings(**changes), make_problem(), None)


def kernel(number: int, body: str = "x + y") -> str:
    """Return a source that no other number shares."""
    return f"import torch\n\n\ndef run(x, y):\n    scale_{number} = {number}\n    return {body}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the directory of a fresh campaign of two agents with ten attempts each."""
    make_campaign(tmp_path / "campaign")
    return tmp_path / "campaign"
