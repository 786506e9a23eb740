"""Reading sources, a page at a time, where the rules allow it."""

from typing import Final

from kernelarc_mcp.host.advice import next_step
from kernelarc_mcp.host.budget import directive
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import BadRequest, NotAllowed, UnknownTicket
from kernelarc_mcp.host.events import SEED
from kernelarc_mcp.host.onlookers import NEXT_STEP, ONLOOKER, check_open
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.host.submit import sources_of
from kernelarc_mcp.host.tickets import standing_of
from kernelarc_mcp.views import Snapshot

PAGE: Final = 16_000
"""Characters in one answer."""


def snapshot(
    campaign: Campaign, agent: str, submission: str = "", path: str = "", offset: int = 0
) -> Snapshot:
    """Return a page of one file of a submission.

    `submission` is a ticket, `seed`, `record` or `branch` (the default); `path` defaults to the
    entry file. NotAllowed where the sources of others are closed to this agent now.
    """
    if offset < 0:
        raise BadRequest(f"offset: {offset}; it counts characters from 0")
    with campaign.journal.reading() as state:
        onlooker = agent == ONLOOKER
        branch = SEED if onlooker else standing_of(state, agent).branch
        names = {"": branch, "branch": branch, "record": state.record.ticket}
        ticket = names.get(submission, submission)
        if onlooker:
            check_open(campaign, state, ticket)
        else:
            _check_access(campaign, state, agent, ticket)
        files = sources_of(campaign, state, ticket)
        if not files:
            raise NotAllowed(f"the sources of {ticket} were too large to be kept")
        if ticket == SEED:
            seed = state.campaign.seed
            author, languages = None, seed.spec.languages
            entry, style = seed.spec.entry_point, seed.spec.destination_passing_style
        else:
            attempt = state.attempts[ticket]
            author, languages = attempt.agent, [attempt.proposal.language]
            entry, style = attempt.proposal.entry_point, attempt.proposal.destination_passing
        now = campaign.journal.now()
        workspace = campaign.shown_workspace(agent)
        step = NEXT_STEP if onlooker else next_step(state, agent, now, workspace)
    paths = [file.path for file in files]
    wanted = path or (entry.partition("::")[0] if entry.partition("::")[0] in paths else paths[0])
    if wanted not in paths:
        raise BadRequest(f"path: {ticket} has no file {wanted[:200]!r}; it has {', '.join(paths)}")
    text = next(file.content for file in files if file.path == wanted)
    text = text.encode("utf-8", "replace").decode()
    end = offset + PAGE
    return Snapshot(
        submission=ticket,
        agent=author,
        files=paths,
        path=wanted,
        offset=offset,
        text=text[offset:end],
        total_chars=len(text),
        next_offset=end if end < len(text) else None,
        languages=languages,
        entry_point=entry,
        destination_passing_style=style,
        next_step=step,
    )


def _check_access(campaign: Campaign, state: CampaignState, agent: str, ticket: str) -> None:
    if ticket == SEED:
        return
    attempt = state.attempts.get(ticket)
    if attempt is None:
        raise UnknownTicket(
            f"there is no submission {ticket[:40]!r}; name a ticket, seed, record or branch"
        )
    if attempt.agent == agent or ticket == state.agents[agent].branch:
        return
    rule = campaign.settings.snapshots
    if rule == "always":
        return
    if rule == "drafting" and directive(state, agent, campaign.journal.now()) == "DRAFT":
        return
    when = "only while your directive is DRAFT" if rule == "drafting" else "never in this campaign"
    raise NotAllowed(f"{ticket} was submitted by {attempt.agent}: you may read it {when}")
