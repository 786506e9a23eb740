"""A real guard that is asked, one for all tests of this folder."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from guard_process import SCHEDULE, Guard, problem

from kernelarc_guard.inquiries import REPLY, Counted, Profiled
from kernelarc_guard.protocol import Progress, Refusal, Result

Ask = Callable[..., Counted | Profiled | Refusal | Result]


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Return a function that sends one inquiry to a real guard and returns what ended it."""
    cache = tmp_path_factory.mktemp("cache")
    with Guard(cache) as guard:

        def send(op: str, **more: Any) -> Counted | Profiled | Refusal | Result:
            body = {
                "id": "q",
                "op": op,
                "cache_dir": str(cache),
                "schedule": SCHEDULE,
                "problem": problem(),
                **more,
            }
            assert guard.process.stdin is not None and guard.process.stdout is not None
            guard.process.stdin.write(json.dumps(body).encode() + b"\n")
            guard.process.stdin.flush()
            for line in guard.process.stdout:
                answer = REPLY.validate_json(line)
                if not isinstance(answer, Progress):
                    return answer
            raise AssertionError("the guard ended without an answer")

        yield send
