"""The command line as a user calls it: arguments in, status and what was printed out."""

from collections.abc import Callable

import pytest

from kernelarc_mcp.cli.main import main

Run = Callable[..., tuple[int, str, str]]
"""Takes arguments; returns the exit status, the output and the errors."""


def command_line(monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command line in this process."""

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["kernelarc-mcp", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capture.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return command
