"""Whether a cluster asks for a token is the same for `ray start` and for the drivers that join."""

import os
from pathlib import Path

import pytest

from kernelarc_mcp.fleet.authentication import settle_mode


@pytest.mark.parametrize(
    ("environment", "has_file", "mode"),
    [
        ({}, False, None),
        ({}, True, "token"),
        ({"RAY_AUTH_TOKEN": "t"}, False, "token"),
        ({"RAY_AUTH_MODE": "disabled"}, True, "disabled"),
    ],
)
def test_who_has_a_token_is_asked_for_it_unless_something_else_is_said(
    environment: dict[str, str],
    has_file: bool,
    mode: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A dictionary of its own: what is settled must not reach other tests.
    surrounding = dict(environment)
    monkeypatch.setattr(os, "environ", surrounding)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    if has_file:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("t")
    settle_mode()
    assert surrounding.get("RAY_AUTH_MODE") == mode
