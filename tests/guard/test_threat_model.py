"""The threat model names tests that exist, and every protection that a result can have."""

import ast
import re
from pathlib import Path

import pytest

from kernelarc_guard.sandbox import find_sandbox

TESTS = Path(__file__).resolve().parent.parent
PAGE = (TESTS.parent / "docs" / "threat-model.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


def test_the_page_names_a_test_in_each_line_of_what_is_defended() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and line.count("|") == 5]
    defended = [row for row in rows if not row.startswith(("| defended", "| `protection`"))]
    assert len(defended) > 35
    assert [row for row in defended if "::" not in row] == []


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_page_names_exists(file: str, name: str) -> None:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {node.name for node in tree.body if isinstance(node, functions)}


def test_every_protection_of_a_result_is_on_the_page() -> None:
    fields = {*find_sandbox().describe(), "missing"}
    assert {field for field in fields if f"| `{field}` |" not in PAGE} == set()


def test_every_link_of_the_page_leads_to_a_file() -> None:
    docs = TESTS.parent / "docs"
    assert [
        link for link in re.findall(r"\]\(([^)#]+)\)", PAGE) if not (docs / link).is_file()
    ] == []
