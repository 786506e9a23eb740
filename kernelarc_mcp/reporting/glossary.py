"""What a report's words mean, for somebody who has only the report."""

from typing import Final

from kernelarc_guard.reasons import REASONS

VERDICTS: Final = {
    "KEEP": (
        "Proven faster than the record by a confirmation.",
        "It is the new record; its agent goes on from it.",
    ),
    "ACCEPT": (
        "Right, and close to the record or with a gain that was not proven.",
        "Never a record; its agent goes on from it.",
    ),
    "REVERT": (
        "Wrong, slower, or not shown close to the record.",
        "Dropped: its agent goes back to its last KEEP or ACCEPT. Only a correct draft is gone on from.",
    ),
    "REJECT": (
        "Refused before it was timed: by a rule, the compiler, its first call, or as a duplicate.",
        "Not used; the attempt counts all the same.",
    ),
}
"""Verdict -> what it says, and what became of the kernel."""
_PLAIN: Final = {
    "not_proven_close": "Measured neither faster with promise nor clearly within the band of the record: it"
    " may be equal or a little slower, the noise hides which.",
    "gain_not_confirmed": "Looked faster, but new pairs did not prove it.",
}
_WORDS: Final = {
    "seed": "the first record of the campaign, what the speedup in the title is over",
    "reference": "the problem's own code, which says what is right; no speedup here is over it, unless said",
    "record": "the best solution so far; only a KEEP moves it",
    "line to beat": "a known solution (the reference, torch.compile of it, cuBLASLt autotuned) judged once beside the seed",
    "pair": "two new processes, one with the record and one with the candidate, timed side by side",
    "screen, confirmation": "a few pairs that send most home; new pairs, the only ones that can KEEP",
    "band": "how much slower than the record still counts as close",
    "error budget, stake": "the chance of even one false KEEP in the campaign; the part of it that one"
    " confirmation risks",
    "speedup": "over several workloads the geometric mean of time ratios",
    "lens": "the strategy an agent is told to search under; it changes when a draft is forced",
    "draft": "an attempt that must change algorithm, language or layout, forced after a run of attempts"
    " without a KEEP",
    "canary": "the record judged against itself, as it is or with a planted delay, to test the device",
    "rulers": "what the device can do at best, measured with the calibration",
    "roofline, bound": "the least time that the device needs for the bytes and operations of a call",
    "win, trap": "what an agent wrote down for the others, with the attempt that shows it",
}


def glossary() -> list[tuple[str, str]]:
    """Return words with their meanings."""
    return [(word, f"{meaning}.") for word, meaning in _WORDS.items()]


def says(reason: str) -> str:
    """Return what a reason code means; empty for none."""
    known = REASONS.get(reason)
    return _PLAIN.get(reason, known.says if known is not None else "")
