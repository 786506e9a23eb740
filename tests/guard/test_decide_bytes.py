"""Recorded pairs give the same bytes in every interpreter that is here, and the bytes once stored."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAIRS = ROOT / "tests" / "data" / "decide_pairs.json"
EXPECTED = ROOT / "tests" / "data" / "decide_expected.jsonl"
NEEDED = ("numpy", "pydantic", "scipy")
MISSING = (
    "import importlib.util, sys; print(sys.version_info[1],"
    f" *[name for name in {NEEDED!r} if importlib.util.find_spec(name) is None])"
)


def interpreter(minor: int) -> str:
    """Return a Python 3.`minor` with what the rule needs; skip the test by name without one."""
    name = f"python3.{minor}"
    found = sys.executable if sys.version_info[:2] == (3, minor) else shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} on PATH")
    # A version manager's stand-in is on PATH even where the version behind it is not installed.
    asked = subprocess.run([found, "-I", "-c", MISSING], capture_output=True, text=True)
    if asked.returncode != 0:
        pytest.skip(f"{name} on PATH does not run")
    version, *missing = asked.stdout.split()
    assert version == str(minor)
    if missing:
        pytest.skip(f"{name} on PATH lacks {', '.join(missing)}")
    return found


def decided(python: str) -> bytes:
    """Return what this interpreter decides from the recorded pairs."""
    script = Path(__file__).with_name("decide_again.py")
    command = [python, "-I", "-W", "error", str(script), str(ROOT / "guard"), str(PAIRS)]
    return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_recorded_pairs_decide_to_the_stored_bytes(minor: int) -> None:
    assert decided(interpreter(minor)) == EXPECTED.read_bytes()


def test_the_recorded_pairs_end_in_every_way_the_rule_knows() -> None:
    lines = [json.loads(line) for line in EXPECTED.read_text(encoding="utf-8").splitlines()]
    endings = {(line.get("reason"), line.get("look")) for line in lines if "outcome" in line}
    assert endings >= {
        (None, None),
        ("close_to_record", None),
        ("slower", None),
        ("not_proven_close", None),
        ("confirmed", 1),
        ("confirmed", 2),
        ("confirmed", 3),
        ("gain_not_confirmed", 3),
        ("not_proven_close", 1),
        ("workload_regressed", 1),
    }
    assert {line["biased"] for line in lines if "nurseries" in line} == {False, True}
