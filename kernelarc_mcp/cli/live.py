"""Following a campaign while it runs: one line for each verdict and each forced draft."""

import time
from pathlib import Path

from rich.markup import escape

from kernelarc_mcp.cli.console import out
from kernelarc_mcp.cli.summary import COLOURS
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.state import Attempt


class Live:
    """Prints what happened in a campaign since the last look."""

    def __init__(self, folder: Path) -> None:
        """Open the campaign beside its server."""
        self._campaign = open_campaign(folder)
        self._begin = time.monotonic()
        self._told: set[str] = set()
        self._episodes: dict[str, int] = {}
        self._calibrated = False

    def look(self) -> None:
        """Print the news."""
        with self._campaign.journal.reading() as state:
            calibration = state.calibration
            settled = [
                attempt
                for attempt in state.attempts.values()
                if attempt.state == "done" and attempt.ticket not in self._told
            ]
            steps = {step.ticket: step.speedup for step in state.records}
            drafting = [
                (agent.name, agent.episode, agent.lens)
                for agent in state.agents.values()
                if agent.episode > self._episodes.get(agent.name, 0)
            ]
        if calibration is not None and not self._calibrated:
            self._calibrated = True
            self._say("", f"[dim]calibrated: a pair's noise is {calibration.sd_confirm:.2g} %[/]")
        for attempt in sorted(settled, key=lambda attempt: attempt.last_seq):
            self._told.add(attempt.ticket)
            self._say(attempt.agent, _verdict(attempt, steps.get(attempt.ticket)))
        for name, episode, lens in drafting:
            self._episodes[name] = episode
            self._say(name, f"[magenta]plateau: must DRAFT, under lens {lens}[/]")

    def close(self) -> None:
        """Close the campaign."""
        self._campaign.close()

    def _say(self, who: str, what: str) -> None:
        out.print(f"{time.monotonic() - self._begin:6.1f} s  {who:<8}  {what}")


def _verdict(attempt: Attempt, over_seed: float | None) -> str:
    verdict = attempt.verdict or ""
    colour = COLOURS.get(verdict, "white")
    faster = "" if attempt.speedup is None else f"  {attempt.speedup:.3f}x the record"
    kept = "" if over_seed is None else f"  [bold]now {over_seed:.2f}x the seed[/]"
    summary = escape(attempt.proposal.summary[:60])
    return f"[{colour}]{verdict:<6}[/] {attempt.reason or '':<18}{faster}{kept}  {summary}"
