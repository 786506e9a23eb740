"""Following a campaign while it runs: one line for each step of its start, verdict and forced draft."""

import time
from pathlib import Path

from rich.markup import escape

from kernelarc_mcp.cli.console import out
from kernelarc_mcp.cli.summary import COLOURS
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.guard_client import WAITING
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.host.tickets import activity, noted

_LOOKS = 8
"""A wait as short as fewer is no news."""


class Live:
    """Prints what happened in a campaign since the last look."""

    def __init__(self, folder: Path) -> None:
        """Open the campaign beside its server."""
        self._campaign = open_campaign(folder)
        self._begin = time.monotonic()
        self._told: set[str] = set()
        self._episodes: dict[str, int] = {}
        self._waiting = 0
        """Looks in a row at which the server waited for the device."""
        self._steps = 0
        """Of the start that were printed."""
        self._spread_due = ""
        """The record whose own noise was being measured."""

    @property
    def verdicts(self) -> int:
        """Return how many verdicts were printed."""
        return len(self._told)

    def activity(self) -> str:
        """Return what the server says it is doing."""
        with self._campaign.journal.reading() as state:
            return " ".join(activity(self._campaign, state)) or "The server says nothing."

    def look(self) -> None:
        """Print the news."""
        with self._campaign.journal.reading() as state:
            start = _start(state)
            settled = [
                attempt
                for attempt in state.attempts.values()
                if attempt.state == "done" and attempt.ticket not in self._told
            ]
            steps = {step.ticket: step.speedup for step in state.records}
            waits = WAITING in noted(self._campaign)
            due, noise = state.spread_due, state.calibration and state.calibration.sd_confirm
            drafting = [
                (agent.name, agent.episode, agent.lens)
                for agent in state.agents.values()
                if agent.episode > self._episodes.get(agent.name, 0)
            ]
        self._waiting = self._waiting + 1 if waits else 0
        if self._waiting == _LOOKS:
            self._say("", "[dim]waiting for the device: something else holds it[/]")
        for step in start[self._steps :]:
            self._say("", f"[dim]{escape(step)}[/]")
        self._steps = max(self._steps, len(start))
        for attempt in sorted(settled, key=lambda attempt: attempt.last_seq):
            self._told.add(attempt.ticket)
            self._say(attempt.agent, _verdict(attempt, steps.get(attempt.ticket)))
        if due != self._spread_due:
            if noise and not due:
                self._say("", f"[dim]a pair's noise is {noise:.2g} % now[/]")
            elif due:
                self._say("", "[dim]measuring the new record's own noise[/]")
            self._spread_due = due
        for name, episode, lens in drafting:
            self._episodes[name] = episode
            self._say(name, f"[magenta]plateau: must DRAFT, under lens {lens}[/]")

    def close(self) -> None:
        """Close the campaign."""
        self._campaign.close()

    def _say(self, who: str, what: str) -> None:
        out.print(f"{time.monotonic() - self._begin:6.1f} s  {who:<8}  {what}")


def _start(state: CampaignState) -> list[str]:
    """Return how far a campaign's start has come, a line for each step."""
    lines = ["calibrating: the seed against itself, to know this machine's noise"]
    if state.calibration is None:
        return lines
    lines.append(f"calibrated: a pair's noise is {state.calibration.sd_confirm:.2g} %")
    if state.campaign.reference is not None and state.campaign.settings.lines_to_beat:
        lines.append("measuring the reference as a line to beat")
        for known in state.baselines:
            speed = "not measured" if known.speedup is None else f"{known.speedup:.3f}x the seed"
            lines.append(f"the {known.name}: {speed}")
    return lines


def _verdict(attempt: Attempt, over_seed: float | None) -> str:
    verdict = attempt.verdict or ""
    colour = COLOURS.get(verdict, "white")
    faster = "" if attempt.speedup is None else f"  {attempt.speedup:.3f}x the record"
    kept = "" if over_seed is None else f"  [bold]now {over_seed:.2f}x the seed[/]"
    summary = escape(attempt.proposal.summary[:60])
    return f"[{colour}]{verdict:<6}[/] {attempt.reason or '':<18}{faster}{kept}  {summary}"
