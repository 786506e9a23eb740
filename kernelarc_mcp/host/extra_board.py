"""The extra boards as they are shown: records on other models than the campaign's own."""

from dataclasses import replace

from kernelarc_mcp.host.board_parts import ratio_view
from kernelarc_mcp.host.extra_state import ExtraBoard, extra_boards
from kernelarc_mcp.host.state import CampaignState, ExtraStep
from kernelarc_mcp.views import OtherModelRow, OtherModelView

_NAMED = 3
"""Records that are named of those that wait."""
_DETAIL = 160
"""Characters of a detail on the board; the report has all of it."""


def other_models(state: CampaignState) -> list[OtherModelView]:
    """Return every extra board with all that was measured for it, the newest first."""
    return [
        _view(state, board, [_row(state, step) for step in reversed(board.steps)])
        for board in extra_boards(state)
    ]


def other_models_in_short(state: CampaignState) -> list[OtherModelView]:
    """Return every extra board with the record's row and the fastest one's, where there are such."""
    return [_view(state, board, _chief_rows(state, board)) for board in extra_boards(state)]


def _chief_rows(state: CampaignState, board: ExtraBoard) -> list[OtherModelRow]:
    record = state.record.ticket
    chief = [step for step in board.steps if step.record == record]
    if board.best is not None and board.best not in chief:
        chief.append(board.best)
    return [_row(state, replace(step, detail=_short(step.detail))) for step in chief]


def _short(detail: str) -> str:
    return detail if len(detail) <= _DETAIL else detail[: _DETAIL - 6] + " [...]"


def _view(state: CampaignState, board: ExtraBoard, rows: list[OtherModelRow]) -> OtherModelView:
    return OtherModelView(
        model=board.model,
        rows=rows,
        measured=sum(step.over_seed is not None for step in board.steps),
        failed=sum(step.over_seed is None for step in board.steps),
        owed=len(board.owed),
        words=_words(board),
    )


def _words(board: ExtraBoard) -> str:
    """Say in a line how far a board has come."""
    done, waiting = len(board.steps), len(board.owed)
    if not done + waiting:
        return "No record yet; the first KEEP will be measured there, too."
    failed = sum(step.over_seed is None for step in board.steps)
    said = f"{done - failed} of {done + waiting} record{'s' * (done + waiting > 1)} measured"
    if failed:
        said += f", {failed} failed there"
    if board.best is not None and board.best.over_seed is not None:
        said += f", fastest {board.best.record} with {board.best.over_seed.ratio:.3f}x the seed"
    if not waiting:
        return f"{said}."
    named = ", ".join(board.owed[-_NAMED:])
    more = f" and {waiting - _NAMED} older" if waiting > _NAMED else ""
    waits = "wait" if waiting > 1 else "waits"
    return f"{said}; {named}{more} {waits} for a free device of this model in a fleet."


def _row(state: CampaignState, step: ExtraStep) -> OtherModelRow:
    known = state.step_of(step.record)
    return OtherModelRow(
        record=step.record,
        device=step.device,
        over_seed=ratio_view(step.over_seed),
        reason=step.reason,
        detail=step.detail,
        withdrawn="" if known is None else known.withdrawn,
    )
