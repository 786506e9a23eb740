"""Times of a campaign's record or of a submission, from the comparisons in its ledger."""

from statistics import median

from kernelarc_guard.protocol import Result
from kernelarc_guard.ratios import Ratio, by_workload
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.errors import BadRequest
from kernelarc_mcp.host.events import SEED, Baselined, Confirmed, Screened, read
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.scores.times import Times, WorkloadTimes


def campaign_times(campaign: Campaign, submission: str = "") -> Times:
    """Return the times of the record, or of a submission; BadRequest where it was not timed.

    The reference's are its ratio to the seed, from the comparison that judged it as a baseline, times
    the seed's in the comparison at hand: no two of them were measured at different times.
    """
    with campaign.journal.reading() as state:
        ticket = submission or state.record.ticket
        if ticket == SEED:
            return _of_seed(campaign, state)
        reference = _reference_over_seed(campaign, state)
        if ticket not in state.attempts:
            raise BadRequest(f"there is no submission {ticket[:40]!r} in this campaign")
        against = state.attempts[ticket].against
    result = _last(campaign, ticket)
    if result is None or not result.pairs:
        raise BadRequest(f"{ticket} was not timed: there is nothing to score")
    seed = _anchor_us(result) if against != SEED else {}
    gains = _over_seed(result, against)
    rows = []
    for report in result.workloads:
        seed_us = report.record_us if against == SEED else seed.get(report.uuid)
        ratio = reference.get(report.uuid)
        rows.append(
            WorkloadTimes(
                uuid=report.uuid,
                solution_us=report.candidate_us if report.state == "passed" else None,
                reference_us=seed_us * ratio if seed_us and ratio else None,
                record_us=report.record_us,
                seed_us=seed_us,
                over_seed=gains.get(report.uuid),
            )
        )
    part = "confirmation" if result.op == "confirm" else "screen"
    return Times(
        solution=ticket,
        record=against,
        source=f"medians of its {part}; the reference through the seed, measured beside both",
        workloads=rows,
    )


def _of_seed(campaign: Campaign, state: CampaignState) -> Times:
    times = state.records[0].microseconds
    if not times:
        raise BadRequest("the seed is the record, and it was not timed yet")
    reference = _reference_over_seed(campaign, state)
    return Times(
        solution=SEED,
        record=SEED,
        source="medians of the first comparison that measured the seed; the reference beside it",
        workloads=[
            WorkloadTimes(
                uuid=workload.uuid,
                solution_us=times.get(workload.uuid),
                reference_us=_scaled(times.get(workload.uuid), reference.get(workload.uuid)),
                record_us=times.get(workload.uuid),
                seed_us=times.get(workload.uuid),
            )
            for workload in campaign.problem.workloads
        ],
    )


def _scaled(seed_us: float | None, ratio: float | None) -> float | None:
    return seed_us * ratio if seed_us and ratio else None


def _reference_over_seed(campaign: Campaign, state: CampaignState) -> dict[str, float]:
    """Return the reference's time over the seed's, by workload, where it was judged."""
    if state.campaign.reference is None:
        return {workload.uuid: 1.0 for workload in campaign.problem.workloads}
    bodies = [read(row).body for row in campaign.journal.ledger.rows_of(["baselined"])]
    judged = [
        body.result
        for body in bodies
        if isinstance(body, Baselined) and body.name == "reference" and body.result is not None
    ]
    return {
        report.uuid: report.candidate_us / report.record_us
        for result in judged
        for report in result.workloads
        if report.candidate_us and report.record_us
    }


def _last(campaign: Campaign, ticket: str) -> Result | None:
    """Return a submission's last comparison, with its pairs."""
    rows = campaign.journal.ledger.rows_of(["screened", "confirmed"], ticket)
    if not rows:
        return None
    body = read(rows[-1]).body
    assert isinstance(body, Screened | Confirmed)
    return body.result


def _over_seed(result: Result, against: str) -> dict[str, Ratio]:
    """Return a candidate's ratios to the seed by workload; none but of a confirmation beside it."""
    triples = [[(b.record, b.candidate, b.anchor) for b in pair.blocks] for pair in result.pairs]
    beside = against == SEED or any(anchor for blocks in triples for _, _, anchor in blocks)
    if result.op != "confirm" or not beside or len(triples) < 2:
        return {}
    gains = by_workload(triples, len(result.workloads))
    return {report.uuid: gain for report, gain in zip(result.workloads, gains, strict=True)}


def _anchor_us(result: Result) -> dict[str, float]:
    """Return the anchor's medians of a confirmation, by workload."""
    medians = {}
    for index, report in enumerate(result.workloads):
        calls = [
            call
            for pair in result.pairs
            for block in pair.blocks
            if block.anchor
            for call in block.anchor[index]
            if call is not None
        ]
        if calls:
            medians[report.uuid] = median(calls) / 1e3
    return medians
