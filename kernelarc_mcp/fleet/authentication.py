"""Whether a Ray cluster asks for a token: the same answer in every process of ours, before it imports ray.

`ray start` turns tokens on by itself where the user has one, and a driver that joins does not.
"""

import os
from pathlib import Path
from typing import Final

_MODE: Final = "RAY_AUTH_MODE"
_TOKENS: Final = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def settle_mode() -> None:
    """Ask for tokens where nobody has said whether to, and this user has one."""
    if _MODE in os.environ:
        return
    given = any(os.environ.get(name) for name in _TOKENS)
    if given or (Path.home() / ".ray" / "auth_token").is_file():
        os.environ[_MODE] = "token"
