"""Every outcome a submission can have: verdicts, stages and the stable reason codes."""

from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["REJECT", "KEEP", "ACCEPT", "REVERT"]
Stage = Literal["envelope", "duplicate", "policy", "build", "smoke", "correctness", "timing"]
STAGES: Final[tuple[Stage, ...]] = (
    "envelope",
    "duplicate",
    "policy",
    "build",
    "smoke",
    "correctness",
    "timing",
)
GATE: Final[frozenset[Stage]] = frozenset({"envelope", "duplicate", "policy", "build", "smoke"})
"""Failing in one of these is REJECT and leaves r alone; failing later is REVERT."""


@dataclass(frozen=True)
class Reason:
    """One reason code: the verdicts it may carry and what it says to an agent."""

    verdicts: frozenset[Verdict]
    says: str


def _reason(verdicts: str, says: str) -> Reason:
    known: dict[str, Verdict] = {v: v for v in ("REJECT", "KEEP", "ACCEPT", "REVERT")}
    return Reason(frozenset(known[v] for v in verdicts.split()), says)


REASONS: Final[dict[str, Reason]] = {
    "envelope_too_large": _reason("REJECT", "The sources are larger than the envelope allows."),
    "envelope_bad_path": _reason(
        "REJECT", "A file path is absolute, leaves the folder or repeats."
    ),
    "envelope_bad_text": _reason("REJECT", "A source is empty or not valid text."),
    "envelope_bad_language": _reason("REJECT", "The language is not one this campaign can run."),
    "envelope_bad_entry": _reason("REJECT", "The entry point names no file or no function."),
    "duplicate": _reason("REJECT", "The same source or binary was judged before."),
    "draft_not_new": _reason("REJECT", "A draft must differ from the branch; this one does not."),
    "cancelled": _reason("REJECT", "Cancelled while it was queued."),
    "policy_syntax": _reason("REJECT", "The source does not parse."),
    "policy_forbidden": _reason("REJECT", "The source does something no honest kernel needs."),
    "build_failed": _reason("REJECT", "The compiler refused the source, or it did not load."),
    "timeout": _reason("REJECT REVERT", "It did not finish before its deadline."),
    "crashed": _reason("REJECT REVERT", "Its process died."),
    "raised": _reason("REJECT REVERT", "It raised an exception."),
    "bad_output_count": _reason("REJECT REVERT", "It returned another number of outputs."),
    "bad_output_type": _reason("REJECT REVERT", "An output is not a plain tensor on the device."),
    "bad_output_shape": _reason("REJECT REVERT", "An output has another shape."),
    "bad_output_dtype": _reason("REJECT REVERT", "An output has another dtype."),
    "output_alias": _reason("REJECT REVERT", "Outputs share memory with inputs or one another."),
    "out_of_bounds_write": _reason("REJECT REVERT", "It wrote outside its buffers."),
    "input_modified": _reason("REJECT REVERT", "It changed an input that is not mutable."),
    "wrong_result": _reason("REVERT", "Its values are outside the tolerance."),
    "wrong_nonfinite": _reason("REVERT", "NaN or infinity where the reference has none, or not."),
    "stale_output": _reason(
        "REVERT", "It gave an earlier call's answer, or the memory that still holds it."
    ),
    "late_write": _reason("REVERT", "It wrote to a result after the call had ended."),
    "not_deterministic": _reason("REVERT", "The problem asks for equal bits, and they differed."),
    "limit_passed": _reason(
        "REJECT REVERT", "Its processes passed a limit on their number, memory or files."
    ),
    "extra_process": _reason("REVERT", "A process it started was alive beside it after a call."),
    "too_many_threads": _reason("REVERT", "It computed on more threads than the problem gives."),
    "tampering": _reason("REVERT", "It was seen to tamper with the measurement."),
    "below_physical_limit": _reason(
        "REVERT", "Its calls took less time than the least of the work needs on this device."
    ),
    "slower": _reason("REVERT", "Shown to be slower than the record."),
    "not_proven_close": _reason("REVERT", "Not shown to be close to the record."),
    "workload_regressed": _reason("REVERT", "Faster on the whole, but one workload got slower."),
    "fixed_inputs": _reason("ACCEPT", "No input of this problem can be redrawn, so no KEEP."),
    "close_to_record": _reason("ACCEPT", "Correct and within the band of the record."),
    "gain_not_confirmed": _reason(
        "ACCEPT", "A promising gain that the confirmation did not prove."
    ),
    "confirmed": _reason("KEEP", "The confirmation proved it faster than the record."),
    "guard_lost": _reason(
        "REVERT", "The guard, or what builds for it, died each of the three times it was judged."
    ),
    # Of records and devices: no submission ends with these.
    "record_drifted": _reason("", "The record is slower than published; it was withdrawn."),
    "record_failed": _reason("", "The record failed a check after its KEEP; it was withdrawn."),
    "device_quarantined": _reason("", "The canaries failed: nothing is judged on this device."),
}


_ANY_STAGE: Final = frozenset(
    {"guard_lost", "cancelled", "tampering", "extra_process", "too_many_threads"}
)


def check_outcome(verdict: Verdict, reason: str, stage: Stage) -> None:
    """Raise ValueError where a verdict, reason and stage cannot occur together."""
    known = REASONS.get(reason)
    if known is None:
        raise ValueError(f"unknown reason code {reason!r}")
    if verdict not in known.verdicts:
        raise ValueError(f"reason {reason!r} never comes with {verdict}")
    if (verdict == "REJECT") != (stage in GATE) and reason not in _ANY_STAGE:
        raise ValueError(f"{verdict} cannot come from stage {stage!r}")
