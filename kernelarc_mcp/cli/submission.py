"""One submission of a campaign as its agent was told of it: verdict, detail, compiler messages."""

from kernelarc_mcp.cli.console import out
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.onlookers import any_attempt
from kernelarc_mcp.host.tickets import submission_view
from kernelarc_mcp.views import SubmissionView


def submission_of(campaign: Campaign, ticket: str) -> SubmissionView:
    """Return anybody's submission, as whoever owns the directory may see it; UnknownTicket for none."""
    with campaign.journal.reading() as state:
        agent = any_attempt(state, ticket).agent
    return submission_view(campaign, agent, ticket)


def print_submission(view: SubmissionView) -> None:
    """Print a submission: each message on lines of its own, nothing left out."""
    by = f"{view.ticket} by {view.state_after.agent}"
    if view.verdict is None:
        out.print(f"{by}: {view.message}", markup=False)
        return
    gain = "" if view.speedup is None else f" {view.speedup:.3f}x the record"
    out.print(f"{by}: {view.verdict} {view.reason}{gain}", markup=False)
    said = [
        view.detail,
        *(f"{one.file}:{one.line}: {one.severity}: {one.message}" for one in view.build),
        *(
            f"workload {one.axes}: {one.state}: {one.reason or ''} {one.detail}".rstrip()
            for one in view.workloads
            if one.state == "failed"
        ),
        *view.observations,
    ]
    for line in said:
        if line:
            out.print(line, markup=False, soft_wrap=True)
