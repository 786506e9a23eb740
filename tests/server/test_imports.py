"""The server process stays light."""

import subprocess
import sys

HEAVY = ("torch", "numpy", "cupy", "triton", "scipy", "cuda")


def _say(script: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    return ended.stdout.strip()


def test_server_and_command_line_import_neither_torch_nor_numpy() -> None:
    script = (
        "import sys\n"
        "import kernelarc_mcp.server, kernelarc_mcp.http, kernelarc_mcp.stdio\n"
        "import kernelarc_mcp.cli.main\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    assert _say(script) == "[]"


def test_the_command_line_starts_without_the_mcp_sdk() -> None:
    assert _say("import kernelarc_mcp.cli.main, sys; print('mcp' in sys.modules)") == "False"
