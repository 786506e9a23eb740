"""Every target, with a few examples that are always the same; `benchmarks/fuzz.py` goes on."""

from collections.abc import Iterator

import pytest
from fuzz import builders, channel, readers, runners, sources, wire
from fuzz.target import Target, run

LIGHT = [*readers.TARGETS, *sources.TARGETS, *channel.TARGETS, wire.TARGETS[0]]
REAL = [*wire.TARGETS[1:], *builders.TARGETS, *runners.TARGETS]


@pytest.fixture(autouse=True, scope="module")
def _end_what_was_started() -> Iterator[None]:
    yield
    wire.REAL.close()
    runners.REAL.close()


@pytest.mark.parametrize("target", LIGHT, ids=lambda target: target.name.replace(" ", "_"))
def test_a_reader_refuses_what_it_cannot_take_and_nothing_else_happens(target: Target) -> None:
    assert run(target, target.few) > 0


@pytest.mark.parametrize("target", REAL, ids=lambda target: target.name.replace(" ", "_"))
def test_a_real_process_that_sends_garbage_gets_a_verdict_or_a_refusal(target: Target) -> None:
    assert run(target, target.few) > 0
