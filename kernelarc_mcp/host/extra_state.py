"""Which records are owed a measurement on which other model, and what those brought; pure."""

from dataclasses import dataclass

from kernelarc_guard.protocol import Result
from kernelarc_guard.ratios import Ratio, ratio_of
from kernelarc_mcp.host.events import Event, ExtraMeasured
from kernelarc_mcp.host.inconsistent import expect
from kernelarc_mcp.host.state import CampaignState, ExtraStep
from kernelarc_mcp.host.watching import values_of


@dataclass(frozen=True)
class ExtraBoard:
    """The records on one model, oldest first."""

    model: str
    steps: list[ExtraStep]
    owed: list[str]
    """Records that still have to be measured there."""
    best: ExtraStep | None
    """The fastest of those that stand."""


def owe_extra(state: CampaignState, record: str) -> None:
    """Owe a new record to the extra boards."""
    for model in state.campaign.settings.extra_models:
        state.extra_owed[record, model] = None


def forget_extra(state: CampaignState, record: str) -> None:
    """Owe nothing more for a record that was withdrawn; what was measured stays."""
    for model in state.campaign.settings.extra_models:
        state.extra_owed.pop((record, model), None)


def over_seed_of(state: CampaignState, result: Result | None) -> Ratio | None:
    """Return the ratio to the seed that a comparison's pairs give; None where it failed or was not made."""
    if result is None or result.verdict is not None or len(result.pairs) < 2:
        return None
    return ratio_of(values_of(state, result))


def apply_extra(state: CampaignState, event: Event, body: ExtraMeasured) -> None:
    """Take over what a record measured on another model."""
    key = body.record, body.model
    expect(event, key in state.extra_owed, f"{body.record} is not owed on {body.model}")
    result = body.result
    expect(event, result is None or result.op == "compare", "holds no comparison")
    found = over_seed_of(state, result)
    expect(event, body.over_seed == found, f"its pairs give the ratio {found!r}")
    expect(event, found is not None or bool(body.detail), "it does not say why there is no ratio")
    del state.extra_owed[key]
    reason = "" if result is None else result.reason or ""
    step = ExtraStep(body.record, body.model, body.device, found, reason, body.detail)
    state.extra.append(step)


def extra_boards(state: CampaignState) -> list[ExtraBoard]:
    """Return the campaign's extra boards, in the order of its settings."""
    boards = []
    for model in state.campaign.settings.extra_models:
        steps = [step for step in state.extra if step.model == model]
        owed = [record for record, on in state.extra_owed if on == model]
        standing = [step for step in steps if not _withdrawn(state, step)]
        best = max(standing, key=_ratio, default=None)
        found = best if best is not None and best.over_seed is not None else None
        boards.append(ExtraBoard(model, steps, owed, found))
    return boards


def _withdrawn(state: CampaignState, step: ExtraStep) -> bool:
    known = state.step_of(step.record)
    return known is not None and bool(known.withdrawn)


def _ratio(step: ExtraStep) -> float:
    return 0.0 if step.over_seed is None else step.over_seed.ratio
