"""A guard on the first GPU of this machine; without one the tests of this folder are skipped.

The guard's errors go to ``gpu-guard.log`` beside the results.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from gpu_guard import FOLDER, GpuGuard

from kernelarc_guard.cuda import driver


@pytest.fixture(scope="session", autouse=True)
def device() -> None:
    """Skip what follows where there is no NVIDIA device; open a context of our own."""
    try:
        if not driver.device_count():
            pytest.skip("no NVIDIA device")
        driver.open_context(0)
    except (driver.NoDriver, driver.CudaError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def guard(device: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuGuard]:
    """Return a guard that judges solutions on ``cuda:0``; all that compile are being built."""
    with GpuGuard(tmp_path_factory.mktemp("cache")) as process, ThreadPoolExecutor(4) as pool:
        # The slowest first. Builds work beside measurements, on cores of their own.
        native = ["rms_extension", *sorted(path.name for path in FOLDER.glob("*.cu"))]
        builds: list[Future[str]] = [pool.submit(process.build, name) for name in native]
        yield process
        for one in builds:
            one.cancel()


@pytest.fixture(scope="session")
def warm(guard: GpuGuard) -> GpuGuard:
    """Return a guard that has judged something: all that it keeps for good is there."""
    assert guard.correct("rms_cuda.cu").verdict is None
    return guard
