"""Conclusions-only memory: wins and traps with evidence, caps and a retention horizon."""

from kernelarc_memory.conclusion import (
    LESSON_CAP,
    SUMMARY_CAP,
    CapExceeded,
    ConclusionRefused,
    EvidenceMismatch,
    Kind,
    Malformed,
    NewConclusion,
    NewerMemory,
    Page,
    Proof,
    Stored,
    Written,
)
from kernelarc_memory.retention import Retention
from kernelarc_memory.store import MemoryStore

__all__ = [
    "LESSON_CAP",
    "SUMMARY_CAP",
    "CapExceeded",
    "ConclusionRefused",
    "EvidenceMismatch",
    "Kind",
    "Malformed",
    "MemoryStore",
    "NewConclusion",
    "NewerMemory",
    "Page",
    "Proof",
    "Retention",
    "Stored",
    "Written",
]
