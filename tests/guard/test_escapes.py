"""Every way out of a sandbox that `escapes.py` knows, from a real runner and a real builder."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from escapes import KINDS
from escaping import Host, answers_of_builder, answers_of_runner, worked
from laboratory import Laboratory, sandbox_of

from kernelarc_guard import seccomp
from kernelarc_guard.confinement import Kind

pytestmark = pytest.mark.skipif(not seccomp.supported(), reason="no filter for this architecture")
PROTECTIONS = [kind for kind in get_args(Kind) if kind != "none"]


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host() as one:
        yield one


@pytest.fixture(scope="module", params=PROTECTIONS)
def lab(request: pytest.FixtureRequest) -> Iterator[Laboratory]:
    with tempfile.TemporaryDirectory() as folder, Laboratory(Path(folder), request.param) as one:
        yield one


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_runner_tries_works(lab: Laboratory, host: Host, kind: str) -> None:
    answers = answers_of_runner(lab, kind, host.aims)
    assert len(answers) >= 10
    assert worked(answers) == {}
    assert host.unharmed()


@pytest.mark.parametrize("protection", PROTECTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_builder_tries_works(protection: Kind, host: Host, kind: str) -> None:
    answers = answers_of_builder(sandbox_of(protection), kind, host.aims)
    assert len(answers) >= 10
    assert worked(answers) == {}
    assert host.unharmed()


def test_every_aim_is_within_reach_outside(host: Host) -> None:
    """What is refused inside works outside: no attempt fails for want of its aim."""
    answers = host.answers("files") | host.answers("network") | host.answers("processes")
    reached = worked(answers)
    for name in (
        "TCP to a server of the host, AF_INET",
        "UDP to a server of the host, AF_INET",
        "abstract socket of the host",
        "named socket of the host",
        "datagram to a named socket",
        "datagram from a pair",
        "read the ledger",
        "write to the campaign",
        "change the mode of the campaign",
        "/proc of the guard: environ",
        "signal 0 to the guard",
    ):
        assert name in reached, (name, answers.get(name))
