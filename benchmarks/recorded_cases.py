"""What the recorded campaign on an H200 holds: how long its judgements took, and their rows to be used again."""

import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from kernelarc_guard.decide import Calibration
from kernelarc_guard.protocol import Result
from kernelarc_mcp.host.events import (
    Calibrated,
    Canary,
    Confirmed,
    Created,
    Event,
    Judging,
    Proposal,
    Screened,
    Settled,
    SpreadUpdated,
    Submitted,
    read,
)
from kernelarc_mcp.host.ledger import Ledger

ARCHIVE: Final = (
    Path(__file__).resolve().parent.parent / "docs" / "measurements" / "h200_campaign_second.tar.gz"
)


@dataclass(frozen=True)
class Case:
    """One recorded submission, and how long a device was busy with it."""

    verdict: str
    screen: float = 0.0
    """Seconds from claim to answer, its build and its checks included; 0: the host's gate refused it."""
    confirm: float = 0.0
    """Seconds of its confirmation; 0: none."""
    leased: float = 0.0
    """Of these, how long the device itself was held."""
    build: float = 0.0
    """Of the screen, how long it was built."""
    signs: int = 0
    """Signs of life that were written meanwhile."""

    @property
    def seconds(self) -> float:
        """Return how long a device's guard was busy with it."""
        return self.screen + self.confirm


@dataclass(frozen=True)
class Recorded:
    """A campaign's rows by what they are about."""

    created: Created
    calibration: Calibration
    cases: list[Case]
    spreads: list[float]
    """Seconds that a new record was compared with itself."""
    canaries: list[float]
    judged: int
    """Submissions that a guard judged."""
    rows: dict[str, list[int]]
    """Kind of a row -> sizes of its bodies, bytes."""
    results: list[tuple[Result, Result | None]]
    """Screen and confirmation of each that was no KEEP."""
    sources: list[tuple[Proposal, list[str]]]
    """What was submitted, with the texts of its files."""


@dataclass
class _Open:
    case: dict[str, float] = field(default_factory=dict)
    claimed: float = 0.0
    screened: float = 0.0
    screen: Result | None = None
    confirmation: Result | None = None


def recorded(archive: Path = ARCHIVE) -> Recorded:
    """Return what an archived campaign holds."""
    with tempfile.TemporaryDirectory(prefix="kernelarc-recorded-") as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        (campaign,) = Path(folder).iterdir()
        ledger = Ledger.open_read_only(campaign)
        try:
            rows = ledger.rows_after(0)
            signs: dict[str, int] = dict(
                ledger.connection.execute("SELECT ticket, revision FROM progress").fetchall()
            )
            events = [read(row) for row in rows]
            sources = [
                (body.proposal, _texts(ledger, body.proposal))
                for body in (event.body for event in events)
                if isinstance(body, Submitted)
            ]
        finally:
            ledger.close()
    sizes: dict[str, list[int]] = {}
    for row in rows:
        sizes.setdefault(row.kind, []).append(len(row.body))
    created = events[0].body
    assert isinstance(created, Created)
    found = _judgements(events)
    cases = [
        _case(event.body, found.get(event.submission), signs.get(event.submission, 0))
        for event in events
        if isinstance(event.body, Settled)
    ]
    return Recorded(
        created=created,
        calibration=next(
            e.body.result.calibration
            for e in events
            if isinstance(e.body, Calibrated) and e.body.result.calibration
        ),
        cases=cases,
        spreads=[_lease(e.body.result) for e in events if isinstance(e.body, SpreadUpdated)],
        canaries=[_lease(e.body.result) for e in events if isinstance(e.body, Canary)],
        judged=len(found),
        rows=sizes,
        results=[
            (one.screen, one.confirmation)
            for one in found.values()
            if one.screen
            and (one.confirmation is None or one.confirmation.verdict != "KEEP")
            and (one.screen.verdict or one.confirmation)
        ],
        sources=sources,
    )


def _texts(ledger: Ledger, proposal: Proposal) -> list[str]:
    return [(ledger.blob(file.digest) or b"").decode() for file in proposal.files]


def _judgements(events: Sequence[Event]) -> dict[str, _Open]:
    """Return the last judgement of every submission that had one."""
    found: dict[str, _Open] = {}
    for event in events:
        at = datetime.fromisoformat(event.at).timestamp()
        match event.body:
            case Judging():
                found[event.submission] = _Open(claimed=at)
            case Screened(result=result):
                one = found[event.submission]
                one.screen, one.screened = result, at
                one.case["screen"] = at - one.claimed
                one.case["leased"] = _lease(result)
                built = result.stages.get("build")
                one.case["build"] = built.seconds if built else 0.0
            case Confirmed(result=result):
                one = found[event.submission]
                one.confirmation = result
                one.case["confirm"] = at - one.screened
                one.case["leased"] += _lease(result)
            case _:
                pass
    return found


def _case(settled: Settled, judgement: _Open | None, signs: int) -> Case:
    if judgement is None:
        return Case(settled.verdict)
    return Case(settled.verdict, signs=signs, **judgement.case)


def _lease(result: Result | None) -> float:
    if result is None or result.lease is None:
        return 0.0
    return (result.lease.to_ns - result.lease.from_ns) / 1e9
