"""Small real campaigns for the tests of the server."""

from dataclasses import dataclass
from pathlib import Path

from kernelarc_guard.problem import Problem
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings

DEFINITION = {
    "name": "doubling",
    "op_type": "elementwise",
    "description": "Twice the input.",
    "axes": {"n": {"type": "var"}},
    "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
    "reference": "import torch\n\n\ndef run(x):\n    return x * 2\n",
}
WORKLOADS = [{"uuid": "small", "axes": {"n": 1000}, "inputs": {"x": {"type": "random"}}}]
KERNEL = "def run(x):\n    return x + x\n"


@dataclass(frozen=True)
class Place:
    """A campaign on disk."""

    folder: Path
    tokens: dict[str, str]

    def events(self) -> int:
        """Return how many rows its ledger has."""
        campaign = open_campaign(self.folder)
        try:
            return campaign.journal.ledger.last_seq()
        finally:
            campaign.close()


def create(folder: Path, attempts: int = 8, **settings_too: object) -> Place:
    """Create a campaign of two agents, `ada` and `bob`."""
    problem = Problem.model_validate({"definition": DEFINITION, "workloads": WORKLOADS})
    settings = CampaignSettings.model_validate(
        {"name": "trial", "problem": "doubling", "agents": ["ada", "bob"], "attempts": attempts}
        | settings_too
    )
    return Place(folder, dict(Host.create(folder, settings, problem, None)))
