"""The page of reason codes says what the code says."""

from pathlib import Path

from kernelarc_guard.reasons import REASONS, Reason

PAGE = Path(__file__).parents[2] / "docs" / "reasons.md"


def _row(code: str, reason: Reason) -> str:
    order = [one for one in ("REJECT", "KEEP", "ACCEPT", "REVERT") if one in reason.verdicts]
    return f"| `{code}` | {', '.join(order) or 'none: of a record or a device'} | {reason.says} |"


def test_the_page_lists_every_reason_with_its_verdicts_and_meaning_in_order() -> None:
    wanted = [_row(code, reason) for code, reason in REASONS.items()]
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert shown == wanted
