"""A campaign's logs: one structured file, one line per verdict in another, both rotating and capped."""

import json
import logging
import os
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from concurrent_log_handler import ConcurrentRotatingFileHandler

from kernelarc_mcp.host.journal import VERDICTS
from kernelarc_mcp.host.telling import NOTABLE

FOLDER: Final = "logs"
SERVER: Final = "server.log"
"""A JSON object a line, of all server processes."""
VERDICT_LINES: Final = "verdicts.log"
"""A line a verdict, for people."""
FILE_BYTES: Final = 2 << 20
FILES_KEPT: Final = 3
"""Older files beside the one that is written: a campaign's logs take (1 + 3) x 2 MiB twice at most."""
ABOUT: Final[ContextVar[str]] = ContextVar("ABOUT", default="")
"""The campaign that a task or a request is about, where a process serves several; else empty."""
_LINE: Final = 4000
"""Characters of a message or a trace that are kept."""
_OWN: Final = "kernelarc_mcp"
_TOKEN: Final = re.compile(r"\bka_[A-Za-z0-9_-]{8,}|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{8,}")
_INPUT: Final = re.compile(r"input_value=.*?(?=, input_type=|\]|$)", re.DOTALL)
"""What pydantic says of a value that it refused: it may be a piece of a source."""


def without_secrets(text: str) -> str:
    """Return a text without bearer tokens and refused values, cut with a mark where it is long."""
    said = _INPUT.sub("input_value=(left out)", _TOKEN.sub("(a token)", text))
    return said if len(said) <= _LINE else said[: _LINE - 6] + " [...]"


class JsonLines(logging.Formatter):
    """Makes a line of JSON of a record: when, how grave, which logger and process, what, and the trace."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": without_secrets(record.getMessage()),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["trace"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


class _Only(logging.Filter):
    """Lets pass what is about one campaign."""

    def __init__(self, campaign: str) -> None:
        super().__init__()
        self._campaign = campaign

    def filter(self, record: logging.LogRecord) -> bool:
        return ABOUT.get() == self._campaign


class _Matters(logging.Filter):
    """Lets pass what a person at a terminal should see though nobody asked for more."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or NOTABLE.items() <= vars(record).items()


class _Naming(logging.Filter):
    """Puts the campaign before the message where there are several."""

    def filter(self, record: logging.LogRecord) -> bool:
        about = ABOUT.get()
        record.about = f"{about}: " if about else ""
        return True


class _PlainLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def set_up_logs(folder: Path, *, verbose: bool) -> None:
    """Log to stderr what matters, and to the campaign's files what happened and each verdict.

    Where the files cannot be written, stderr says so and is all there is.
    """
    log_to_stderr(verbose=verbose)
    log_to_files(folder)


def log_to_stderr(*, verbose: bool) -> None:
    """Log to stderr what matters, naming the campaign that it is about where there are several."""
    root = logging.getLogger()
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setFormatter(_PlainLines("%(asctime)s %(levelname)s %(name)s: %(about)s%(message)s"))
    stderr.setLevel(logging.INFO)
    if not verbose:
        stderr.addFilter(_Matters())
    stderr.addFilter(_Naming())
    root.addHandler(stderr)
    root.setLevel(logging.INFO if verbose else logging.WARNING)
    logging.getLogger(_OWN).setLevel(logging.INFO)


def log_to_files(folder: Path, campaign: str = "") -> None:
    """Log to a campaign's files what happened and each verdict.

    With a name only what is about the campaign of that name: see ABOUT. Where the files cannot be
    written, the other logs say so and are all there is.
    """
    own = logging.getLogger(_OWN)
    try:
        place = folder / FOLDER
        place.mkdir(exist_ok=True)
        if not os.access(place, os.W_OK):
            raise PermissionError(f"no right to write to {place}")
        everything = _file(place / SERVER, JsonLines())
        verdicts = _file(place / VERDICT_LINES, _PlainLines("%(asctime)s  %(message)s"))
    except OSError as error:
        own.warning("the campaign's logs cannot be written: %s", error)
        return
    if campaign:
        everything.addFilter(_Only(campaign))
        verdicts.addFilter(_Only(campaign))
    logging.getLogger().addHandler(everything)
    own.getChild(VERDICTS).addHandler(verdicts)


def _file(path: Path, formatter: logging.Formatter) -> logging.Handler:
    # Several processes write to it: rotating takes turns by a lock file beside it.
    handler = ConcurrentRotatingFileHandler(
        str(path), maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8"
    )
    handler.setFormatter(formatter)
    return handler
