"""Having CUPTI record a call in a solution's own process, and reading what that left (imports torch)."""

import os
import sys
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from kernelarc_guard.cuda import traced
from kernelarc_guard.cuda.left_behind import MOST_WORDS, is_plain
from kernelarc_guard.profile_model import printable
from kernelarc_guard.supervised import Room
from kernelarc_guard.timeline import timeline_of
from kernelarc_guard.timeline_model import Timeline, Traces

SECONDS: Final = 120.0
_TRACES: Final = "traces.json"
_TRACES_BYTES: Final = 2 << 20


class NoTimeline(Exception):
    """There is no timeline, and why. Nothing else of a profile depends on it."""


def trace(room: Room, job: Path) -> Timeline:
    """Run a job with CUPTI in `room` and return the timeline of its call; raises NoTimeline."""
    left = room.out / _TRACES
    program = [sys.executable, "-I", "-B", "-m", traced.__name__]
    answer = room.run([*program, room.inside(job), room.inside(left)], SECONDS)
    os.chmod(room.out, 0o700)  # the solution may have shut it
    if answer["passed"]:
        raise NoTimeline(f"the solution passed a limit while it was recorded: {answer['passed']}")
    if answer["returncode"] is None:
        raise NoTimeline(f"to record a call took more than {SECONDS:g} s")
    return read_traces(left, answer["output"])


def read_traces(left: Path, output: str) -> Timeline:
    """Return the timeline of what a process left, taken for what it may be: hostile.

    `output` is what it printed. Raises NoTimeline.
    """
    if not is_plain(left):
        said = printable(output[-MOST_WORDS:], MOST_WORDS) or "it printed nothing"
        raise NoTimeline(f"the process that records left nothing: {said}")
    if left.stat().st_size > _TRACES_BYTES:
        raise NoTimeline(f"what was recorded has more than {_TRACES_BYTES} bytes")
    try:
        traces = Traces.model_validate_json(left.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        words = f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"
        raise NoTimeline(
            f"what was recorded cannot be read: {printable(words, MOST_WORDS)}"
        ) from None
    if traces.refused:
        raise NoTimeline(printable(traces.refused, MOST_WORDS))
    if traces.error:
        words = printable(traces.error, MOST_WORDS)
        raise NoTimeline(f"the call failed while it was recorded: {words}")
    if traces.plain is None:
        raise NoTimeline("no call was recorded")
    return timeline_of(traces.plain, traces.behind)
