"""A campaign's directory: creating it, opening it, and who may take part."""

import errno
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kernelarc_guard.fingerprint import dsl_of
from kernelarc_guard.formats.writing import documents_of, write_folder
from kernelarc_guard.problem import Problem
from kernelarc_guard.solution import Solution, SourceFile, reference_solution
from kernelarc_mcp.host import tokens
from kernelarc_mcp.host.errors import BadRequest, CampaignError, NotAllowed, UnknownAgent
from kernelarc_mcp.host.events import AgentAdded, Created
from kernelarc_mcp.host.journal import Clock, Journal, utc_now
from kernelarc_mcp.host.ledger import FILE, Ledger
from kernelarc_mcp.host.lenses import eligible_lenses, read_lens
from kernelarc_mcp.host.memo import Memo
from kernelarc_mcp.host.settings import CampaignSettings, check_device, check_name
from kernelarc_mcp.host.storage import storage_faults
from kernelarc_mcp.host.workspace import write_workspace
from kernelarc_mcp.requests import Requests

PROBLEM: Final = "problem"
AGENTS: Final = "agents"


@dataclass(frozen=True)
class Campaign:
    """An open campaign."""

    folder: Path
    journal: Journal
    problem: Problem
    """Its files lie in the campaign's own directory."""
    settings: CampaignSettings
    memo: Memo = field(default_factory=Memo, compare=False)
    same_machine: bool = True
    """Whether callers may see this machine's files: over HTTP nobody knows where they are."""

    def workspace(self, agent: str) -> Path:
        """Return the directory an agent works in."""
        return self.folder / AGENTS / agent

    def shown_workspace(self, agent: str) -> str:
        """Return the agent's workspace as answers name it; empty where the caller may be elsewhere."""
        return str(self.workspace(agent)) if self.same_machine else ""

    def requests(self, cache_dir: str) -> Requests:
        """Return what makes the guard's requests about this campaign's problem."""
        settings = self.settings
        return Requests(
            self.problem, settings.device, cache_dir, settings.parameters, settings.schedule
        )

    def close(self) -> None:
        """Close the ledger's connection."""
        self.journal.ledger.close()


def create_campaign(
    folder: Path,
    settings: CampaignSettings,
    problem: Problem,
    seed: Solution | None,
    clock: Clock = utc_now,
) -> list[tuple[str, str]]:
    """Make a campaign's directory and return each agent's token, which is shown this once.

    Without a seed the reference, run as a solution, is the first record. CampaignError where
    `folder` has something in it already, or where settings, problem and seed do not fit.
    """
    definition = problem.definition
    if settings.problem != definition.name:
        raise CampaignError(f"the settings name {settings.problem}, the problem {definition.name}")
    try:
        check_device(settings.device)
    except ValueError as error:
        # Not in the settings themselves: ledgers with such a device were made, and stay readable.
        raise CampaignError(f"device: {error}") from None
    if seed is not None and seed.definition != definition.name:
        raise CampaignError(f"the seed solves {seed.definition}, the problem is {definition.name}")
    if folder.is_dir() and any(folder.iterdir()):
        raise CampaignError(f"{folder}: not empty; a campaign needs a directory of its own")
    lenses = settings.lenses or eligible_lenses(
        definition.operator_class,
        settings.device,
        strict=definition.kernelarc.tolerance == "strict",
    )
    for lens in lenses:
        read_lens(lens)
    reference = reference_solution(definition)
    first = seed or reference
    created = Created(
        settings=settings.model_copy(update={"lenses": lenses}),
        problem=problem.model_copy(update={"folder": None, "warnings": []}),
        problem_digest=problem.digest,
        operator_class=definition.operator_class,
        seed=first,
        seed_digest=first.digest,
        seed_dsl=dsl_of(first),
        reference=None if first.digest == reference.digest else reference,
    )
    _write_problem(folder / PROBLEM, problem)
    for agent in settings.agents:
        workspace = folder / AGENTS / agent
        workspace.mkdir(parents=True)
        write_workspace(workspace, first.sources)
    journal = Journal(Ledger.open(folder, create=True), clock)
    try:
        with journal.writing() as writer:
            writer.append(created)
            connection = journal.ledger.connection
            return [(a, tokens.issue(connection, a, writer.at)) for a in settings.agents]
    finally:
        journal.ledger.close()


def open_campaign(folder: Path, clock: Clock = utc_now, *, read_only: bool = False) -> Campaign:
    """Open a campaign; CampaignError where there is none or it cannot be used."""
    ledger = Ledger.open_read_only(folder) if read_only else Ledger.open(folder)
    journal = Journal(ledger, clock)
    try:
        with journal.reading() as state:
            if state.created is None:
                raise CampaignError(f"{folder}: {FILE} holds no campaign")
            created = state.created
    except BaseException:
        journal.ledger.close()
        raise
    problem = created.problem.model_copy(update={"folder": str((folder / PROBLEM).resolve())})
    return Campaign(folder.resolve(), journal, problem, created.settings)


def add_agent(campaign: Campaign, agent: str, attempts: int = 0) -> str:
    """Return a new token for an agent and let it in where it is new.

    Without a pool a newcomer brings `attempts` of its own, and the error budget that is left is
    divided anew: it gets as much as the others have on average. NotAllowed where the two do not fit.
    """
    try:
        check_name(agent)
    except ValueError as error:
        raise BadRequest(f"agent: {error}") from error
    with campaign.journal.writing() as writer:
        settings = campaign.settings
        known = {name.casefold(): name for name in writer.state.agents}
        if known.get(agent.casefold(), agent) != agent:
            raise BadRequest(f"agent: {known[agent.casefold()]!r} is there already")
        if agent not in writer.state.agents:
            if settings.pool and attempts:
                raise NotAllowed("agents of this campaign draw from a pool: give no attempts")
            if not settings.pool and attempts < 1:
                raise NotAllowed(
                    f"the attempts are split over {', '.join(writer.state.agents)}: a further"
                    " agent must bring attempts of its own: `--attempts N`"
                )
            writer.append(AgentAdded(attempts=None if settings.pool else attempts), agent)
        elif attempts:
            raise NotAllowed(f"{agent} is there already and has its attempts")
        seed = writer.state.campaign.seed
        token = tokens.issue(campaign.journal.ledger.connection, agent, writer.at)
    ensure_workspace(campaign, agent, seed.sources)
    return token


def revoke_agent(campaign: Campaign, agent: str) -> int:
    """Revoke every token of an agent and return how many there were."""
    with campaign.journal.writing() as writer:
        if agent not in writer.state.agents:
            raise UnknownAgent(f"there is no agent {agent!r} in this campaign")
        return tokens.revoke(campaign.journal.ledger.connection, agent, writer.at)


def issue_token(campaign: Campaign, name: str, role: tokens.Role) -> str:
    """Return a new token for somebody who takes no part: a viewer or an admin."""
    if role == "agent":
        raise BadRequest("role: an agent's token comes with add_agent")
    try:
        check_name(name)
    except ValueError as error:
        raise BadRequest(f"name: {error}") from error
    with campaign.journal.alone() as connection:
        return tokens.issue(connection, name, campaign.journal.now(), role)


def revoke_token(campaign: Campaign, token_id: str) -> None:
    """Revoke one token by the id that `all_tokens` shows; BadRequest where none is valid."""
    with campaign.journal.alone() as connection:
        if not tokens.revoke_one(connection, token_id, campaign.journal.now()):
            raise BadRequest(f"there is no valid token with the id {token_id[:40]!r}")


def ensure_workspace(campaign: Campaign, agent: str, sources: list[SourceFile]) -> None:
    """Make an agent's workspace, with the first record's files, where nothing is in its place."""
    workspace = campaign.workspace(agent)
    if os.path.lexists(workspace):
        return
    with storage_faults(campaign.folder):
        workspace.parent.mkdir(parents=True, exist_ok=True)
        # Complete or not there at all, whenever this process may be killed.
        making = Path(tempfile.mkdtemp(dir=workspace.parent, prefix=f".{agent}-"))
        making.chmod(workspace.parent.stat().st_mode & 0o777)
        write_workspace(making, sources)
        try:
            making.rename(workspace)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            shutil.rmtree(making)  # another process was quicker


def _write_problem(folder: Path, problem: Problem) -> None:
    """Write the problem in the form it is read in, with the files its workloads name."""
    origin = None if problem.folder is None else Path(problem.folder)
    try:
        write_folder(folder, documents_of(problem), origin)
    except ValueError as error:
        raise CampaignError(f"the problem cannot be copied: {error}") from None
