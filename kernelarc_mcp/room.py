"""Answers short enough for every client: what has no room is counted and can be asked for.

Some clients cut what is longer, in the middle and without a word.
"""

import json
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel

from kernelarc_mcp.host.errors import BadRequest
from kernelarc_mcp.views import Snapshot, SubmissionView

ROOM: Final = 9_900
"""Characters of an answer's JSON."""
_DETAIL: Final = 3_000
_BUILD: Final = 2_500
_OBSERVATIONS: Final = 1_000
_LEAST_TEXT: Final = 1_000
"""Characters of a source that a page has room for, however long the names of its files are."""


def submission_within(view: SubmissionView, first_workload: int = 0) -> SubmissionView:
    """Return a submission with as many workloads, from `first_workload` on, as there is room for.

    BadRequest where there is no workload of that number.
    """
    workloads = sorted(view.workloads, key=lambda report: report.state != "failed")
    if first_workload and first_workload >= len(workloads):
        raise BadRequest(f"first_workload: {first_workload}; there are {len(workloads)}, from 0 on")
    detail = start_within(view.detail, _DETAIL)
    build = view.build[: fitting([one.model_dump_json() for one in view.build], _BUILD)]
    observations = view.observations[: fitting(view.observations, _OBSERVATIONS)]
    left_out = {
        "detail": len(view.detail) - len(detail),
        "build": len(view.build) - len(build),
        "observations": len(view.observations) - len(observations),
    }
    short = view.model_copy(
        update={
            "detail": detail,
            "build": build,
            "observations": observations,
            "workloads": [],
            "left_out": {name: count for name, count in left_out.items() if count},
        }
    )
    rest = workloads[first_workload:]
    shown = fitting([report.model_dump_json() for report in rest], ROOM - _length(short))
    end = first_workload + shown
    return short.model_copy(
        update={
            "workloads": rest[:shown],
            "next_workload": end if end < len(workloads) else None,
        }
    )


def snapshot_within(view: Snapshot) -> Snapshot:
    """Return a page of a source as long as there is room for."""
    room = ROOM - _length(view.model_copy(update={"text": ""}))
    text = start_within(view.text, max(room, _LEAST_TEXT))
    end = view.offset + len(text)
    return view.model_copy(
        update={"text": text, "next_offset": end if end < view.total_chars else None}
    )


def fitting(written: Sequence[str], room: int) -> int:
    """Return how many of the entries, from the first on, have room; at least one where there is one."""
    for count, text in enumerate(written):
        room -= len(text) + 3
        if room < 0:
            return max(1, count)
    return len(written)


def start_within(text: str, room: int) -> str:
    """Return the longest start of `text` whose JSON has at most `room` characters."""
    if _written(text) <= room:
        return text
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _written(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def _written(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False))


def _length(view: BaseModel) -> int:
    return len(view.model_dump_json())
