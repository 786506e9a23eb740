"""The request that profiles a submission outside of its campaign's dispatcher, which charges nobody."""

from pathlib import Path

from kernelarc_guard.inquiries import ProfileRequest
from kernelarc_mcp.host.campaign import open_campaign
from kernelarc_mcp.host.errors import BadRequest
from kernelarc_mcp.host.events import SEED
from kernelarc_mcp.host.profile_state import unfit
from kernelarc_mcp.host.profiles import longest, times_of
from kernelarc_mcp.host.submit import solution_of


def campaign_profile(
    folder: Path, submission: str, workload: str, cache_dir: str, reports: str
) -> ProfileRequest:
    """Return the request for the record or another submission; BadRequest where it cannot be profiled.

    The workload defaults to the one on which it took longest. Reads the campaign and writes nothing
    there, so that it may be served meanwhile.
    """
    campaign = open_campaign(folder, read_only=True)
    try:
        with campaign.journal.reading() as state:
            record = state.record
            ticket = submission or record.ticket
            if ticket == SEED:
                times = state.records[0].microseconds
            elif ticket not in state.attempts:
                raise BadRequest(f"there is no submission {ticket[:40]!r} in this campaign")
            elif why := unfit(state.attempts[ticket]):
                raise BadRequest(why)
            else:
                times = times_of(state.attempts[ticket])
            chosen = workload or longest(campaign, times)
            against = solution_of(campaign, state, record.ticket)
            return ProfileRequest(
                id="profile",
                device=campaign.settings.device,
                cache_dir=cache_dir,
                schedule=campaign.settings.schedule,
                problem=campaign.problem,
                candidate=solution_of(campaign, state, ticket),
                record=None if ticket == record.ticket else against,
                workload=chosen,
                reports=reports,
                call_us=times.get(chosen),
                rulers=None if state.calibration is None else state.calibration.rulers,
            )
    finally:
        campaign.close()
