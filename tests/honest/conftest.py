"""One guard process for all cases: starting it costs seconds of importing torch."""

from collections.abc import Iterator

import pytest
from guard_process import Guard


@pytest.fixture(scope="session")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    """Return a running guard."""
    with Guard(tmp_path_factory.mktemp("cache")) as process:
        yield process
