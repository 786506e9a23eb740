"""How to read an answer of submit_candidate: an example, the reason codes and the board's words."""

import json
from typing import Any, Final

from kernelarc_guard.reasons import REASONS
from kernelarc_mcp.host.settings import CampaignSettings

URI: Final = "kernelarc://verdicts"
_FAILED: Final[dict[str, Any]] = {
    "ticket": "s004",
    "state": "done",
    "stage": "build",
    "verdict": "REJECT",
    "reason": "build_failed",
    "detail": 'kernel.cu:12: identifier "rows" is undefined',
    "build": [{"file": "kernel.cu", "line": 12, "severity": "error", "message": "identifier ..."}],
    "numbers": None,
    "state_after": {"directive": "CONTINUE", "r": 1, "branch": "s003", "attempts_left": 16},
}
_KEPT: Final[dict[str, Any]] = {
    "ticket": "s005",
    "state": "done",
    "stage": "timing",
    "verdict": "KEEP",
    "reason": "confirmed",
    "speedup": 1.31,
    "lower": 1.28,
    "numbers": {"over_seed": {"ratio": 9.4}, "resolution_percent": 1.1, "wealth_left": 0.0049},
    "workloads": [
        {"uuid": "7d00...", "state": "passed", "record_us": 240.1, "candidate_us": 183.0}
    ],
    "build": [
        {"file": "kernel.cu", "line": 0, "severity": "info", "message": "row_sum: 40 registers"}
    ],
    "state_after": {"directive": "CONTINUE", "r": 0, "branch": "s005", "attempts_left": 15},
}
_WORDS: Final = {
    "guard": "the process beside the server that compiles, checks and times; no candidate reaches it",
    "record, branch": "the campaign's best, which only a KEEP moves; what you explore from, your last"
    " KEEP or ACCEPT",
    "speedup, gain": "record's time over candidate's time, both measured side by side",
    "lower": "lower bound of that, where it was proven; null in a screen",
    "over_seed": "the same over the campaign's first record, measured along in the confirmation",
    "screen, confirmation": "a few pairs that send most home; the one set of new pairs that can KEEP",
    "stake, wealth": "part of the error budget that a confirmation risks; what an agent has left of it",
    "goal, resolution": "smallest gain looked for; smallest that could have been proven",
    "canaries": "the record compared with itself: whether the device can be trusted (not the bytes"
    " around tensors that show out_of_bounds_write)",
    "quarantined": "they failed: nothing is judged until the operator calibrates; say so and end",
    "suspect, withdrawn": "a record that is measured again; one that did not stand it",
    "r, DRAFT": "ACCEPTs and REVERTs since your last KEEP or draft; at r_draft a new approach"
    " is due",
    "profile": "costs time of the device; only the campaign's own limit on that holds, no attempt",
}


def verdicts_text(settings: CampaignSettings) -> str:
    """Return the page, in Markdown."""
    lines = ["# How to read an answer of submit_candidate and wait_submission", ""]
    lines += ["Two answers, with what matters first (the others of their keys left out):", ""]
    lines += [_example(one, settings.device) for one in (_FAILED, _KEPT)]
    lines += ["", "While `state` is `queued` or `judging`, `verdict` is null: wait_submission."]
    lines += [
        "`detail` says what failed, where and what is allowed. Do `state_after.directive`: CONTINUE,"
        f" RESTORE, DRAFT (r reached {settings.r_draft}) or STOP.",
        "",
        "## Reason codes",
        "",
    ]
    told = [(code, sorted(one.verdicts), one.says) for code, one in REASONS.items()]
    lines += [
        f"* `{code}` ({', '.join(verdicts)}): {says}" for code, verdicts, says in told if verdicts
    ]
    lines += [
        "",
        "REJECT or REVERT: REJECT where the very first call shows it.",
        "",
        "## Words",
        "",
    ]
    lines += [f"* {word}: {means}." for word, means in _WORDS.items()]
    return "\n".join(lines) + "\n"


def _example(answer: dict[str, Any], device: str) -> str:
    """Return an answer as it would come on the device."""
    if not device.startswith("cpu"):
        return f"    {json.dumps(answer)}"
    # Compilers for a CPU tell no registers, only errors and warnings.
    build = [one for one in answer["build"] if one["severity"] != "info"]
    return f"    {json.dumps(answer | {'build': build})}".replace("kernel.cu", "kernel.cpp")
