"""The host's part of the gate: envelope, duplicate and draft_not_new; a function of the rows."""

from collections.abc import Callable
from typing import Final

from kernelarc_guard.fingerprint import shingle_similarity
from kernelarc_guard.solution import Solution, SourceFile
from kernelarc_mcp.host.envelope import Envelope
from kernelarc_mcp.host.events import SEED, Settled
from kernelarc_mcp.host.state import AgentStanding, CampaignState

MAX_SIMILARITY: Final = 0.8
"""A draft that shares more of its 5-token shingles with the branch is a light edit of it."""

Sources = Callable[[str], list[SourceFile]]
"""Submission, or `seed` -> its source files."""


def refuse(
    state: CampaignState,
    agent: str,
    envelope: Envelope,
    algorithm: str,
    layout: str,
    sources: Sources,
) -> Settled | None:
    """Return the REJECT a submission gets at once, or None where the guard has to judge it."""
    if envelope.refusal is not None:
        refusal = envelope.refusal
        return Settled(
            verdict="REJECT", reason=refusal.reason, stage="envelope", detail=refusal.detail
        )
    solution = envelope.solution
    assert solution is not None and envelope.key is not None
    earlier = state.by_key.get(envelope.key)
    if earlier is not None:
        return Settled(
            verdict="REJECT",
            reason="duplicate",
            stage="duplicate",
            detail=_names_earlier(state, earlier),
            duplicate_of=earlier,
        )
    standing = state.agents[agent]
    if standing.drafting:
        problem = _not_new(
            state, standing, solution, envelope.found_dsl, algorithm, layout, sources
        )
        if problem:
            return Settled(
                verdict="REJECT", reason="draft_not_new", stage="duplicate", detail=problem
            )
    return None


def _names_earlier(state: CampaignState, earlier: str) -> str:
    attempt = state.attempts[earlier]
    if attempt.verdict is None:
        verdict = "which has no verdict yet"
    else:
        verdict = f"which was judged {attempt.verdict} ({attempt.reason})"
    return (
        f"The same source, apart from comments and formatting, is {earlier} by {attempt.agent},"
        f" {verdict}."
    )


def _not_new(
    state: CampaignState,
    standing: AgentStanding,
    solution: Solution,
    found_dsl: str,
    algorithm: str,
    layout: str,
    sources: Sources,
) -> str:
    """Return why a draft is none, or an empty string."""
    branch = standing.branch
    if branch == SEED:
        before = ("", state.campaign.seed_dsl, "")
    else:
        attempt = state.attempts[branch]
        before = (attempt.proposal.algorithm, attempt.found_dsl, attempt.proposal.layout)
    changed = [
        name
        for name, old, new in zip(
            ("algorithm", "DSL", "layout"), before, (algorithm, found_dsl, layout), strict=True
        )
        if new and _plain(new) != _plain(old)
    ]
    if not changed:
        return (
            f"It declares the algorithm, DSL and layout of the branch ({branch}): change at least"
            f" one and say so. The sources are {found_dsl}."
        )
    similarity = shingle_similarity(solution.sources, sources(branch))
    if similarity > MAX_SIMILARITY:
        return (
            f"It says another {' and '.join(changed)}, but its text is {similarity:.0%} that of the"
            f" branch ({branch}); a draft shares at most {MAX_SIMILARITY:.0%}."
        )
    return ""


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
