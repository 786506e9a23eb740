"""The wheel carries every module and data file of the tree, and no top-level name that others own."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "kernelarc_mcp": "kernelarc_mcp",
    "guard/kernelarc_guard": "kernelarc_guard",
    "memory/kernelarc_memory": "kernelarc_memory",
    "strategies": "kernelarc_mcp/_data/strategies",
    "kernels": "kernelarc_mcp/_data/kernels",
    "clients": "kernelarc_mcp/_data/clients",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the file names inside a freshly built wheel."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    done = subprocess.run([*build, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_file_of_the_tree_is_in_the_wheel(names: set[str]) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", *PLACES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert tracked
    for path in tracked:
        root = next(place for place in PLACES if path.startswith(f"{place}/"))
        assert PLACES[root] + path.removeprefix(root) in names


def test_the_wheel_installs_three_packages_and_nothing_else(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"kernelarc_guard", "kernelarc_mcp", "kernelarc_memory"}
