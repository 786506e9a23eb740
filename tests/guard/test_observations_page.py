"""The page of observations names what the guard can say, and nothing else."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "observations.md"
GUARD = ROOT / "guard" / "kernelarc_guard"


def test_the_page_has_every_code_that_the_guard_says_and_no_others() -> None:
    sources = "\n".join(path.read_text() for path in GUARD.rglob("*.py"))
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    codes = [code for row in rows for code in re.findall(r"`(\w+)`", row)]
    assert len(codes) == len(set(codes)) > 15
    assert [code for code in codes if f'"{code}: ' not in sources] == []
    said = set(re.findall(r'(?:note|observe)\(\s*f?"([a-z_]+): ', sources))
    assert len(said) > 5 and said <= {*codes, "reference"}
