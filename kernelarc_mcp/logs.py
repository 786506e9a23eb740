"""A campaign's logs: one structured file, one line per verdict in another, both rotating and capped."""

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from concurrent_log_handler import ConcurrentRotatingFileHandler

from kernelarc_mcp.host.journal import VERDICTS

FOLDER: Final = "logs"
SERVER: Final = "server.log"
"""A JSON object a line, of all server processes."""
VERDICT_LINES: Final = "verdicts.log"
"""A line a verdict, for people."""
FILE_BYTES: Final = 2 << 20
FILES_KEPT: Final = 3
"""Older files beside the one that is written: a campaign's logs take (1 + 3) x 2 MiB twice at most."""
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


class _PlainLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def set_up_logs(folder: Path, *, verbose: bool) -> None:
    """Log to stderr what matters, and to the campaign's files what happened and each verdict.

    Where the files cannot be written, stderr says so and is all there is.
    """
    root = logging.getLogger()
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setFormatter(_PlainLines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    stderr.setLevel(logging.INFO if verbose else logging.WARNING)
    root.addHandler(stderr)
    root.setLevel(logging.INFO if verbose else logging.WARNING)
    own = logging.getLogger(_OWN)
    own.setLevel(logging.INFO)
    try:
        place = folder / FOLDER
        place.mkdir(exist_ok=True)
        if not os.access(place, os.W_OK):
            raise PermissionError(f"no right to write to {place}")
        root.addHandler(_file(place / SERVER, JsonLines()))
        own.getChild(VERDICTS).addHandler(
            _file(place / VERDICT_LINES, _PlainLines("%(asctime)s  %(message)s"))
        )
    except OSError as error:
        own.warning("the campaign's logs cannot be written: %s", error)


def _file(path: Path, formatter: logging.Formatter) -> logging.Handler:
    # Several processes write to it: rotating takes turns by a lock file beside it.
    handler = ConcurrentRotatingFileHandler(
        str(path), maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8"
    )
    handler.setFormatter(formatter)
    return handler
