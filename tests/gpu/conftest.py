"""A guard on the first GPU of this machine; without one the tests of this folder are skipped."""

from collections.abc import Iterator

import pytest
from gpu_guard import GpuGuard

from kernelarc_guard.cuda import driver


@pytest.fixture(scope="session")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuGuard]:
    """Return a guard that judges solutions of a small RMSNorm on ``cuda:0``."""
    try:
        if not driver.device_count():
            pytest.skip("no NVIDIA device")
    except (driver.NoDriver, driver.CudaError) as error:
        pytest.skip(str(error))
    with GpuGuard(tmp_path_factory.mktemp("cache")) as process:
        yield process
