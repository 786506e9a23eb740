"""Where a process is killed: at one statement of one kind of transaction, by a trace of its database.

Only a process that calls `arm` is killed; the product knows nothing of this.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kernelarc_mcp.host.ledger import Ledger

_PASSED_OVER: Final = frozenset(
    {"ledger.py", "journal.py", "election.py", "contextlib.py", "points.py"}
)
"""Files between a statement and the function whose transaction it belongs to."""


COMMIT: Final = -2
"""Statement of a point right before COMMIT."""
COMMITTED: Final = -1
"""Statement of a point right after it."""
NAMED: Final = {"COMMIT": COMMIT, "(committed)": COMMITTED}
"""What such a point is in a log."""


@dataclass(frozen=True)
class Point:
    """Kill the process before a statement of the `occurrence`-th transaction of a kind.

    The first statement is number 1, BEGIN; one more than there are is right after COMMIT. How many
    there are follows from the rows that are written: the last two also have names, `COMMIT` and `COMMITTED`.
    """

    kind: str
    """Function that opens the transaction, such as `submit`, `claim` or `screened`."""
    statement: int
    occurrence: int = 1


@dataclass
class _Trace:
    log: Path
    point: Point | None
    seen: dict[str, int] = field(default_factory=dict)
    longest: dict[str, int] = field(default_factory=dict)
    kind: str = ""
    """Empty outside of transactions."""
    number: int = 0

    def statement(self, text: str) -> None:
        words = text.split(maxsplit=3)
        if words[0] == "BEGIN":
            self.kind, self.number = _owner(), 0
            self.seen[self.kind] = self.seen.get(self.kind, 0) + 1
        if self.kind:
            self.number += 1
            self.reached(" ".join(words[:3])[:40])

    def committed(self) -> None:
        self.number += 1
        self.reached("(committed)")
        self.kind = ""

    def reached(self, what: str) -> None:
        here = Point(self.kind, self.number, self.seen[self.kind])
        named = Point(self.kind, NAMED.get(what, self.number), self.seen[self.kind])
        end = self.point is not None and self.point in (here, named)
        if end or here.statement > self.longest.get(here.kind, 0):
            self.longest[here.kind] = max(here.statement, self.longest.get(here.kind, 0))
            _append(
                self.log, f"{'killed' if end else 'passed'}\t{here.kind}\t{here.statement}\t{what}"
            )
        if end:
            os.kill(os.getpid(), signal.SIGKILL)


def arm(log: Path, point: Point | None) -> None:
    """Trace every ledger that this process opens from now on; kill it at `point`.

    `log` gets a line for each statement beyond the longest transaction of its kind so far, and one
    for the kill.
    """
    trace = _Trace(log, point)
    open_plainly, transaction_plainly = Ledger.open.__func__, Ledger.transaction  # type: ignore[attr-defined]

    def traced(cls: type[Ledger], folder: Path, *, create: bool = False) -> Ledger:
        ledger: Ledger = open_plainly(cls, folder, create=create)
        ledger.connection.set_trace_callback(trace.statement)
        return ledger

    @contextmanager
    def transaction(self: Ledger) -> Iterator[None]:
        try:
            with transaction_plainly(self):
                yield
        except BaseException:
            trace.kind = ""
            raise
        trace.committed()

    Ledger.open = classmethod(traced)  # type: ignore[method-assign, assignment]
    Ledger.transaction = transaction  # type: ignore[method-assign]


def read_log(log: Path) -> tuple[list[tuple[str, int, str]], tuple[str, int, str] | None]:
    """Return the statements that were passed, and the one at which the process was killed."""
    passed, killed = [], None
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    for line in lines:
        how, kind, number, what = line.split("\t")
        if how == "killed":
            killed = kind, int(number), what
        else:
            passed.append((kind, int(number), what))
    return passed, killed


def _owner() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None and Path(frame.f_code.co_filename).name in _PASSED_OVER:
        frame = frame.f_back
    return frame.f_code.co_name


def _append(log: Path, line: str) -> None:
    # One write each: what was written before a kill stays.
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line.encode() + b"\n")
    finally:
        os.close(file)
