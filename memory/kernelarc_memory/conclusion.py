"""What agents tell one another: conclusions, what they must be like, and when two are the same."""

import hashlib
import math
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

Kind = Literal["win", "trap"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SUMMARY_CAP: Final = 160
LESSON_CAP: Final = 1200
EVIDENCE: Final[dict[str, frozenset[str]]] = {
    "win": frozenset({"KEEP", "ACCEPT"}),
    "trap": frozenset({"REJECT", "REVERT"}),
}
"""The verdicts that can prove each kind."""


class ConclusionRefused(ValueError):
    """A conclusion that was not stored; the message is for the agent that wrote it."""


class NewerMemory(ValueError):
    """A memory file that a newer version wrote."""


class CapExceeded(ConclusionRefused):
    """A text is longer than its cap."""

    def __init__(self, field: str, length: int, cap: int) -> None:
        super().__init__(
            f"{field} has {length} characters, the cap is {cap}: shorten it by {length - cap}; "
            "nothing was stored"
        )
        self.field = field
        self.length = length
        self.cap = cap


class EvidenceMismatch(ConclusionRefused):
    """The cited submission's verdict cannot prove this kind of conclusion."""


class Malformed(ConclusionRefused):
    """A field is empty, not text, or not a possible value."""


@dataclass(frozen=True, kw_only=True)
class NewConclusion:
    """One conclusion as its agent wrote it, beside the facts the server measured."""

    kind: Kind
    summary: str
    lesson: str
    evidence: str
    """Submission that proves it."""
    agent: str
    lens: str
    verdict: str
    """Verdict of the evidence."""
    reason: str
    """Reason code of the evidence."""
    speedup: float | None
    """Of the evidence over the record it was compared with; None where nothing was timed."""
    device: str
    operator_class: str
    campaign: str
    at: str
    """When it was written, ISO 8601 with an offset."""
    position: int = 0
    """How many submissions the campaign had charged when it was written."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One submission that led an agent to the conclusion."""

    evidence: str
    agent: str
    lens: str
    verdict: str
    reason: str
    speedup: float | None
    campaign: str
    at: str
    position: int


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A conclusion as it is kept: the first text, every proof, and a count."""

    id: int
    kind: Kind
    summary: str
    lesson: str
    device: str
    operator_class: str
    seen: int
    """How often it was written, by anyone."""
    proofs: tuple[Proof, ...]
    """At least one, oldest first; the same submission is listed once."""

    @property
    def first(self) -> Proof:
        return self.proofs[0]

    @property
    def latest(self) -> Proof:
        return self.proofs[-1]


@dataclass(frozen=True, kw_only=True)
class Written:
    """What became of a conclusion that was written."""

    id: int
    merged: bool
    """True where the same text was there already."""
    seen: int


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a reader is shown, newest first, and how much is kept in all."""

    items: list[Stored]
    stored: int
    """Conclusions kept for this operator class, device and kind, shown or not."""


def parse_time(text: str) -> datetime:
    """Read an ISO 8601 time with an offset; raise Malformed for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Malformed(f"{text!r} is not an ISO 8601 time") from error
    if moment.tzinfo is None:
        raise Malformed(f"{text!r} has no offset from UTC")
    return moment


def microseconds(text: str) -> int:
    """Return an ISO 8601 time with an offset as microseconds since 1970: these sort as the times do."""
    return (parse_time(text) - _EPOCH) // timedelta(microseconds=1)


def text_digest(summary: str, lesson: str) -> str:
    """Hash the words of a conclusion: case, spacing and Unicode form do not matter."""
    parts = (
        " ".join(unicodedata.normalize("NFKC", text).casefold().split())
        for text in (summary, lesson)
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def check(new: NewConclusion) -> None:
    """Raise ConclusionRefused where `new` may not be stored."""
    if new.kind not in EVIDENCE:
        raise Malformed(f"kind must be win or trap, not {new.kind!r}")
    for field, cap in (("summary", SUMMARY_CAP), ("lesson", LESSON_CAP)):
        text: str = getattr(new, field)
        if not text.strip():
            raise Malformed(f"{field} is empty")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise Malformed(f"{field} is not valid Unicode text")
        if len(text) > cap:
            raise CapExceeded(field, len(text), cap)
    allowed = EVIDENCE[new.kind]
    if new.verdict not in allowed:
        raise EvidenceMismatch(
            f"a {new.kind} must cite a submission judged {' or '.join(sorted(allowed))}; "
            f"{new.evidence} was judged {new.verdict}"
        )
    if not new.evidence:
        raise Malformed("evidence is empty: name the submission that proves it")
    if new.speedup is not None and not (math.isfinite(new.speedup) and new.speedup > 0):
        raise Malformed(f"speedup must be a positive number, not {new.speedup}")
    if new.position < 0:
        raise Malformed("position must not be negative")
    parse_time(new.at)
