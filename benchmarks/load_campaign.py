"""Campaigns for the load test: one filled by a scripted guard, and ones with rows in any number."""

import sys
from itertools import cycle
from pathlib import Path
from typing import Final

import anyio

from kernelarc_guard.problem import read_problem
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.conclusions import memory_of
from kernelarc_mcp.host.dispatcher import Dispatcher
from kernelarc_mcp.host.events import FileRef, Proposal, Settled, Submitted
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings
from kernelarc_mcp.host.settle import append_settled
from kernelarc_memory import NewConclusion

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from host_places import scripted_guard

__all__ = ["KERNEL", "create", "fill", "grow", "scripted_guard"]

KERNEL: Final = (
    "import torch\n\n\ndef run(hidden_states, weight):\n    number_{0} = {0}\n"
    "    return hidden_states\n\n\nPLAN = '{1}'\n"
)
PLANS: Final = ("wrong", "broken", "gain:-4.0", "gain:0.0", "gain:-1.5", "gain:3.0")
_BATCH: Final = 1000
_LESSON: Final = "What was measured says that it holds for these shapes only; look at the profile. "


def create(folder: Path, agents: int, attempts: int) -> dict[str, str]:
    """Create a campaign of `agents` agents with `attempts` in all; return their tokens."""
    settings = CampaignSettings(
        name="load",
        problem="rmsnorm",
        agents=[f"agent-{number}" for number in range(1, agents + 1)],
        attempts=attempts,
    )
    problem = read_problem(data_dir("kernels") / "rmsnorm")
    return dict(Host.create(folder, settings, problem, None))


def fill(folder: Path, rounds: int, guard: str) -> list[str]:
    """Let every agent submit `rounds` candidates and conclude from one; return a ticket of each."""
    host = Host.open(folder)
    plans = cycle(PLANS)
    agents = host.agents()
    for agent in agents:
        host.register(agent)
    for number in range(rounds):
        for place, agent in enumerate(agents):
            name = number * len(agents) + place
            source = KERNEL.format(name, next(plans))
            host.submit(agent, source=source, summary=f"Try {name}: other tiles, wider loads.")
    anyio.run(Dispatcher(host, guard).run_until_idle)
    tickets = []
    with host.campaign.journal.reading() as state:
        for agent in agents:
            own = [one for one in state.attempts.values() if one.agent == agent]
            tickets.append(own[0].ticket)
        verdicts = {ticket: state.attempts[ticket].verdict for ticket in tickets}
    for agent, ticket in zip(agents, tickets, strict=True):
        kind = "win" if verdicts[ticket] in ("KEEP", "ACCEPT") else "trap"
        host.conclude(agent, kind, f"{agent}: wider loads", f"{agent}: {_LESSON * 3}", ticket)
    host.close()
    return tickets


def grow(host: Host, rows: int) -> None:
    """Add submissions that the gate refused, and as many conclusions, up to `rows` of each."""
    agents = host.agents()
    state_used = 0
    with host.campaign.journal.reading() as state:
        state_used = state.used
    for first in range(state_used, rows, _BATCH):
        with host.campaign.journal.writing() as writer:
            for number in range(first + 1, min(rows, first + _BATCH) + 1):
                agent = agents[number % len(agents)]
                ticket = f"s{number:03d}"
                proposal = Proposal(
                    language="fortran",
                    entry_point="kernel.f::run",
                    destination_passing=False,
                    binding="",
                    files=[FileRef(path="kernel.f", digest="0" * 64, size=1)],
                    summary=f"Try {number}: another language.",
                )
                standing = writer.state.agents[agent]
                submitted = Submitted(
                    number=number,
                    request_id="",
                    proposal=proposal,
                    lens=standing.lens,
                    episode=standing.episode if standing.drafting else 0,
                    key=None,
                    found_dsl="fortran",
                    solution_digest=None,
                )
                writer.append(submitted, agent, ticket)
                refused = Settled(
                    verdict="REJECT",
                    reason="envelope_bad_language",
                    stage="envelope",
                    detail="This campaign knows no fortran.",
                )
                append_settled(writer, writer.state.attempts[ticket], refused)
            at = writer.at
        memory_of(host.campaign).write_all(
            [
                _conclusion(host, agents[number % len(agents)], number, at)
                for number in range(first + 1, min(rows, first + _BATCH) + 1)
            ]
        )


def _conclusion(host: Host, agent: str, number: int, at: str) -> NewConclusion:
    definition = host.problem.definition
    return NewConclusion(
        kind="trap",
        summary=f"{number}: no fortran here",
        lesson=f"{number}: {_LESSON * 3}",
        evidence=f"s{number:03d}",
        agent=agent,
        lens="",
        verdict="REJECT",
        reason="envelope_bad_language",
        speedup=None,
        device=host.settings.device,
        operator_class=definition.operator_class,
        campaign=host.settings.name,
        at=at,
        position=number,
    )
