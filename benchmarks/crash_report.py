"""The table of kills by process and stage, from the lines that `benchmarks.crashes` wrote."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

_CHARGE: Final = ("submit", "cancel")
_SETTLE: Final = ("screened", "stake", "confirmed", "interrupted")
_FOUND: Final = "## What was found"
_TIERS: Final = {
    "ledger": "Ledger and dispatcher, the guard a stand-in that imports no torch",
    "stack": "Full stack: HTTP server, stdio servers, four clients, the real guard on the CPU",
}


def write_report(lines: list[dict[str, Any]], out: Path | None) -> int:
    """Print the page, write it to `out`, and return how many kills and runs had something wrong."""
    kills = [one for one in lines if "process" in one]
    ends = [one for one in lines if "submissions" in one]
    wrong = [one for one in lines if one["wrong"]]
    text = ["# Kills", ""]
    text += [
        f"{len(kills)} times a process was killed with SIGKILL at a seeded point; after each kill `verify` and the counts of",
        "charges were checked, and each campaign was then brought to its end: every submission that a client had sent was",
        f"answered, charged once and has one verdict. Wrong: {len(wrong)}.",
        "",
        "```",
        "python -m benchmarks.crashes ledger --kills 800 --out crashes.jsonl",
        "python -m benchmarks.crashes stack --kills 200 --out crashes.jsonl",
        "python -m benchmarks.crashes report crashes.jsonl --out docs/measurements/crashes.md",
        "```",
    ]
    for tier, title in _TIERS.items():
        text += _tier(
            title,
            [one for one in kills if one["tier"] == tier],
            [one for one in ends if one["tier"] == tier],
        )
    text += _statements(kills, ends)
    text += ["", *(f"* wrong: {one}" for one in wrong)]
    page = "\n".join(text).rstrip() + "\n"
    before = out.read_text(encoding="utf-8") if out is not None and out.exists() else ""
    if _FOUND in before:
        # Written by hand; it stays.
        page += "\n" + before[before.index(_FOUND) :]
    print(page)
    if out is not None:
        out.write_text(page, encoding="utf-8")
    return len(wrong)


def _tier(title: str, kills: list[dict[str, Any]], ends: list[dict[str, Any]]) -> list[str]:
    seeds = sorted({one["seed"] for one in kills})
    sent = sum(one["submissions"] for one in ends)
    rows = Counter((one["process"], one["stage"]) for one in kills)
    times: dict[tuple[str, str], list[float]] = {}
    for one in kills:
        times.setdefault((one["process"], one["stage"]), []).append(one["seconds"])
    return [
        "",
        f"## {title}",
        "",
        f"{len(kills)} kills; {len(ends)} campaigns brought to their end, with {sent} submissions and {sent} verdicts. Seeds {_spans(seeds)}.",
        "",
        "| process | stage | kills | longest, s |",
        "|---|---|---|---|",
        *(
            f"| {process} | {stage} | {count} | {max(times[process, stage]):.1f} |"
            for (process, stage), count in sorted(rows.items())
        ),
    ]


def _statements(kills: list[dict[str, Any]], ends: list[dict[str, Any]]) -> list[str]:
    """Return at how many of the statements of charge and settle something was killed."""
    there: dict[str, int] = {}
    for end in ends:
        for kind, last in end.get("statements", {}).items():
            there[kind] = max(last, there.get(kind, 0))
    hit: dict[str, set[int]] = {}
    ends_hit = Counter((one["stage"], one["what"]) for one in kills)
    for one in kills:
        if one["statement"]:
            hit.setdefault(one["stage"], set()).add(one["statement"])
    rows = []
    for kind in (*_CHARGE, "claim", *_SETTLE, "recover"):
        every = set(range(1, there.get(kind, 0) + 1))
        left = sorted(every - hit.get(kind, set()))
        missing = ", ".join(map(str, left)) or "none"
        before, after = ends_hit[kind, "COMMIT"], ends_hit[kind, "(committed)"]
        there_and_hit = len(every & hit.get(kind, set()))
        rows.append(f"| {kind} | {len(every)} | {there_and_hit} | {missing} | {before} | {after} |")
    return [
        "",
        "## Every statement of charge and settle",
        "",
        "A statement is one that SQLite executes in the transaction, from BEGIN to COMMIT; the last one counted is the moment",
        "right after COMMIT. The process is killed before it. How many there are grows with the records there are, each of which",
        "is written again; so kills right before and right after COMMIT are counted by themselves.",
        "",
        "| transaction | statements at most | with a kill | without | kills before COMMIT | right after it |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def _spans(numbers: list[int]) -> str:
    """Return numbers as spans: 1-4, 7."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
