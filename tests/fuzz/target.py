"""What a fuzzing target is, and how one is run with hypothesis."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

_DEADLINE = timedelta(seconds=30)
"""What takes one example longer has hung."""
_REAL_DEADLINE = timedelta(seconds=300)
"""The same where processes start and wait for one another, on a machine that others use too."""
REAL = 10
"""Targets with fewer examples in the normal run have real processes, which cost seconds each."""
_EVERY_CHECK_OFF = list(HealthCheck)
_PHASES = (Phase.explicit, Phase.generate, Phase.shrink)


@dataclass(frozen=True)
class Target:
    """One reader of untrusted bytes: what it is given, and what must hold then."""

    name: str
    inputs: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    """Raises for a crash, an undocumented error or a wrong answer."""
    few: int = 40
    """Examples in the normal test run."""


def run(target: Target, examples: int, number: int | None = None) -> int:
    """Try examples; with a seed `number` fresh ones, else always the same. Returns how many ran.

    What `check` raises for the smallest failing example passes through.
    """
    tried = 0

    def check(value: Any) -> None:
        nonlocal tried
        tried += 1
        target.check(value)

    test = settings(
        max_examples=examples,
        deadline=_DEADLINE if target.few >= REAL else _REAL_DEADLINE,
        database=None,
        derandomize=number is None,
        print_blob=True,
        phases=_PHASES,
        suppress_health_check=_EVERY_CHECK_OFF,
    )(given(target.inputs)(check))
    if number is not None:
        test = seed(number)(test)
    with warnings.catch_warnings():
        # That a failing example is long, for instance.
        warnings.simplefilter("ignore", HypothesisWarning)
        test()
    return tried


def one_line(message: str, where: str = "") -> None:
    """Assert that an error's message is one line that a person can read, and says where."""
    assert message.strip(), "an error without a message"
    assert len(message.splitlines()) == 1, f"more than one line: {message!r}"
    assert len(message) <= 5000, f"{len(message)} characters"
    message.encode()
    assert where in message, f"{where!r} is not named: {message!r}"
