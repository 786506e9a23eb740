"""The rows of a report about agents, attempts and conclusions, each in one line."""

import re
import textwrap
from typing import Final

from kernelarc_mcp.report import AgentReport, SubmissionReport
from kernelarc_mcp.reporting.document import ConclusionRow, Document

_REGRESSED: Final = re.compile(r"\bWorkload (\d+) is shown slower")
"""As `kernelarc_guard.decide` says it of a workload's place in the problem."""
_WIDTH: Final = 200
_FOR_PROGRAMS: Final = re.compile(r"^[\w-]+: *\w+=")
"""A line of a lesson that scripted agents read."""


def reason_of(document: Document, row: SubmissionReport) -> str:
    """Return an attempt's reason code, of a regression with the workload."""
    reason = row.reason or ""
    found = _REGRESSED.search(row.detail) if reason == "workload_regressed" else None
    if found is None:
        return reason
    place, workloads = int(found[1]), document.about.workloads
    return f"{reason}: {workloads[place] if place < len(workloads) else f'workload {place}'}"


def models_of(document: Document, agent: AgentReport) -> str:
    """Return the models or programs that an agent's clients named."""
    named = [
        name for row in document.costs.agents if row.agent == agent.agent for name in row.models
    ]
    return ", ".join(named) or "not recorded"


def conclusion_line(row: ConclusionRow) -> str:
    """Return a conclusion on one line, cut between words; report.json has all of it."""
    lines = [line.strip() for line in row.lesson.splitlines()]
    lesson = next((line for line in lines if line and not _FOR_PROGRAMS.match(line)), "")
    summary = " ".join(row.summary.split())
    said = f"{summary.rstrip('.')}: {lesson}" if lesson else summary
    return textwrap.shorten(said, _WIDTH, placeholder=" ...")


def drafts_line(document: Document) -> str:
    """Return how many drafts were forced and what came of them, as the agents' table counts them."""
    forced = sum(agent.drafts_forced for agent in document.agents)
    made = sum(agent.drafts_made for agent in document.agents)
    marked = sum(row.draft for row in document.submissions)
    if not forced:
        return "No draft was forced."
    owed = sum(agent.drafting for agent in document.agents)
    ended = forced - made - owed
    parts = [f"{made} {'was' if made == 1 else 'were'} made"]
    if owed:
        parts.append(f"{owed} still due at the end")
    if ended:
        parts.append(f"{ended} ended by a KEEP before it")
    said = f"A draft was forced {forced} times: {', '.join(parts)}"
    return (
        f"{said}. {marked} attempts were made while one was due, marked (draft); one that is REJECTed makes"
        " none."
    )
