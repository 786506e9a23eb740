"""A campaign's transactions, made as servers and dispatchers make them, with the recorded campaign's rows."""

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.recorded_cases import Recorded
from kernelarc_guard.protocol import Progress, Result
from kernelarc_mcp.host.campaign import create_campaign, open_campaign
from kernelarc_mcp.host.events import AgentAdded, Submitted
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.judgement import Claim, Judge
from kernelarc_mcp.host.submit import register

Taken = dict[str, list[float]]
"""Kind of transaction -> how long each took, milliseconds."""
_OWN: Final = {
    ".py": "\nKERNELARC_NUMBER = {0}\n",
    ".cu": "\nconst int kernelarc_number_{0} = 0;\n",
}
"""What makes a recorded source another one, by the ending of its file."""


def make_campaign(folder: Path, recorded: Recorded, agents: int) -> list[str]:
    """Create a campaign as the recorded one was, with so many registered agents; return their names."""
    first = recorded.created
    settings = first.settings.model_copy(
        update={
            "agents": ["agent-1"],
            "attempts": 1_000_000,
            "pool": True,
            "gpu_seconds": None,
            "wall_seconds": None,
            "name": "rate",
        }
    )
    create_campaign(folder, settings, first.problem, first.seed)
    names = [f"agent-{number}" for number in range(1, agents + 1)]
    campaign = open_campaign(folder)
    with campaign.journal.writing() as writer:
        for name in names:
            if name not in writer.state.agents:
                writer.append(AgentAdded(attempts=None), name)
            register(writer, name)
    campaign.close()
    return names


class Work:
    """Submits and judges in one process; every transaction is timed."""

    def __init__(self, folder: Path, recorded: Recorded, names: Sequence[str], place: int) -> None:
        """Open the campaign; `place` tells this process's submissions from those of others."""
        self.host = Host.open(folder)
        self._judge = Judge(self.host.campaign, "machine", place)
        self._recorded = recorded
        self._sources = [s for s in recorded.sources if Path(s[0].files[0].path).suffix in _OWN]
        self._names = names
        self._place = place
        self._number = 0
        self.taken: Taken = defaultdict(list)

    def submit(self) -> None:
        """Submit a source that nobody submitted."""
        self._number += 1
        number = self._place * 1_000_000 + self._number
        proposal, texts = self._sources[number % len(self._sources)]
        first, rest = proposal.files[0], proposal.files[1:]
        own = texts[0] + _OWN[Path(first.path).suffix].format(number)
        began = time.perf_counter()
        self.host.submit(
            self._names[(self._place + self._number) % len(self._names)],
            source=own,
            filename=first.path,
            files={file.path: text for file, text in zip(rest, texts[1:], strict=True)},
            language=proposal.language,
            entry_point=proposal.entry_point,
            destination_passing=proposal.destination_passing,
            binding=proposal.binding,
            summary=proposal.summary,
            algorithm=f"number {number}",
            layout=f"number {number}",
            request_id=f"{number}",
        )
        self._note("submit", began)

    def queue(self, count: int) -> list[tuple[str, str]]:
        """Queue so many submissions in one transaction; return their tickets and agents."""
        made = []
        with self.host.campaign.journal.writing() as writer:
            for number in range(count):
                agent = self._names[number % len(self._names)]
                ticket = f"s{writer.state.used + 1:03d}"
                body = Submitted(
                    number=writer.state.used + 1,
                    request_id=ticket,
                    proposal=self._sources[number % len(self._sources)][0],
                    lens=writer.state.agents[agent].lens,
                    episode=0,
                    key=ticket,
                    found_dsl="cuda",
                    solution_digest=ticket,
                )
                writer.append(body, agent, ticket)
                made.append((ticket, agent))
        return made

    def judge(self, signs: int) -> bool:
        """Claim what is next and settle it, with so many signs of life; False where nothing waits."""
        began = time.perf_counter()
        claim = self._judge.claim()
        self._note("claim", began)
        if claim is None:
            return False
        screen, confirmation = self._recorded.results[self._number % len(self._recorded.results)]
        for done in range(signs):
            self._sign(claim, done, signs)
        began = time.perf_counter()
        # As each candidate has a binary of its own.
        ours = screen.model_copy(update={"binary": f"{self._place:08x}{self._number:056x}"})
        confirming = self._judge.screened(claim, ours)
        self._note("screened" if confirming else "screened and settled", began)
        if confirming and confirmation is not None:
            self._confirm(claim, confirmation)
        return True

    def _confirm(self, claim: Claim, confirmation: Result) -> None:
        began = time.perf_counter()
        self._judge.stake(claim)
        self._note("staked", began)
        began = time.perf_counter()
        self._judge.confirmed(claim, confirmation)
        self._note("confirmed and settled", began)

    def _sign(self, claim: Claim, done: int, of: int) -> None:
        progress = Progress(id="x", stage="timing", done=done, of=of, message=f"pair {done}")
        began = time.perf_counter()
        self._judge.progress(claim.ticket, progress)
        self._note("sign of life", began)

    def _note(self, kind: str, began: float) -> None:
        self.taken[kind].append(1000 * (time.perf_counter() - began))
