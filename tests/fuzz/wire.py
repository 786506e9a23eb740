"""Targets: request lines to the guard, in this process and to a real one (imports torch)."""

import json
import tempfile
from pathlib import Path
from typing import Any

from fuzz.target import Target, one_line
from fuzz.values import NASTY, json_files
from guard_process import PARAMETERS, REFERENCE, SCHEDULE, Guard, problem, python
from hypothesis import strategies as st
from pydantic import ValidationError

from kernelarc_guard.__main__ import answer_line
from kernelarc_guard.model import Model
from kernelarc_guard.protocol import REQUEST, Refusal, Result, Screen

_NO_JUDGE = "nobody judges here"
_COMMON: dict[str, Any] = {
    "id": "r1",
    "schedule": SCHEDULE,
    "problem": problem(),
    "parameters": PARAMETERS,
    "record": python(REFERENCE),
}
_CALIBRATION: dict[str, Any] = {
    "device": "cpu",
    "problem": "0",
    "at": "2026-01-01T00:00:00+00:00",
    "pairs": 2,
    "blocks_screen": 1,
    "blocks_confirm": 1,
    "sd_screen": 1.0,
    "sd_confirm": 1.0,
    "delta": 0.3,
    "mean": 0.0,
    "values": [0.0, 0.1],
}


def _request(op: str, cache: str, **more: Any) -> dict[str, Any]:
    return {**_COMMON, "op": op, "cache_dir": cache, **more}


def requests(cache: str) -> list[dict[str, Any]]:
    """Return one request of each kind that a guard would judge."""
    both = {"candidate": python(REFERENCE)}
    compare = _request("compare", cache, **both, pairs=2)
    del compare["parameters"]
    return [
        _request("calibrate", cache, pairs=2),
        _request("screen", cache, **both, correctness_only=True),
        _request("confirm", cache, **both, calibration=_CALIBRATION, stake=0.001),
        compare,
    ]


def _lines(cache: str) -> st.SearchStrategy[bytes]:
    valid = st.sampled_from(requests(cache)).flatmap(json_files)
    other = st.one_of(st.binary(max_size=80), NASTY.map(_dumped), st.just(b""), st.just(b"{}"))
    # The guard reads lines: what has several is several requests.
    return st.one_of(valid, valid, other).map(lambda data: data.replace(b"\n", b" "))


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def _in_process(line: bytes) -> None:
    told: list[Model] = []
    answer_line(line + b"\n", None, _NO_JUDGE, told.append)
    (only,) = told
    assert isinstance(only, Refusal)
    one_line(only.error)
    only.model_dump_json().encode()
    if only.error == _NO_JUDGE:
        assert REQUEST.validate_json(line).id == only.id
    else:
        assert only.error.startswith("request: "), only.error


class _Real:
    """A guard that lives as long as this process, and what it may cost."""

    guard: Guard | None = None
    folder = ""

    def get(self) -> Guard:
        """Return the guard, started at the first use."""
        if self.guard is None:
            self.folder = tempfile.mkdtemp(prefix="fuzz-")
            self.guard = Guard(Path(self.folder) / "cache")
        return self.guard

    def close(self) -> None:
        """End it."""
        if self.guard is not None:
            self.guard.close()
            self.guard = None


REAL = _Real()


def _to_a_real_guard(case: tuple[list[bytes], bool]) -> None:
    lines, judge = case
    guard = REAL.get()
    for line in filter(_quick, lines):
        answer = guard.send(line.replace(b"@CACHE@", REAL.folder.encode()))
        if isinstance(answer, Refusal):
            assert not answer.error.startswith("guard error"), answer.error
            one_line(answer.error)
        else:
            _harmless(answer)
    if judge:
        result = guard.ask("screen", candidate=python(REFERENCE), correctness_only=True)
        assert result.stages["correctness"].state == "passed", result.detail


def _quick(line: bytes) -> bool:
    """Say whether a line is refused, or judged within seconds: nothing is timed."""
    try:
        request = REQUEST.validate_json(line)
    except ValidationError:
        return True
    return (
        isinstance(request, Screen)
        and request.correctness_only
        and (request.schedule.evict_bytes or 0) <= 1 << 26
        and request.problem.definition.kernelarc.threads <= 2
        and len(request.problem.workloads) <= 3
    )


def _harmless(result: Result) -> None:
    """A request that got through was one that a guard may judge: record against itself."""
    assert result.verdict != "KEEP", result
    assert result.id and result.protection["sandbox"] != "none"


TARGETS = [
    Target("request lines", _lines("/nowhere/cache"), _in_process, few=80),
    Target(
        "request lines to a real guard",
        st.tuples(st.lists(_lines("@CACHE@/cache"), min_size=1, max_size=20), st.booleans()),
        _to_a_real_guard,
        few=1,
    ),
]
