"""Where this user's caches are: builds, and calibrations that outlive a command."""

import os
from pathlib import Path


def cache_root() -> Path:
    """Return the project's directory under the user's cache directory (not created)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "kernelarc-mcp"


def build_cache() -> Path:
    """Return where the guard keeps compiled solutions of commands without a campaign."""
    return cache_root() / "builds"


def calibration_cache() -> Path:
    """Return where calibrations of commands without a campaign are kept."""
    return cache_root() / "calibrations"


def roof_cache() -> Path:
    """Return where the highest rates that were measured on this machine are kept."""
    return cache_root() / "roofs"


def guard_log() -> Path:
    """Return where the guard's own messages go in commands without a campaign."""
    return cache_root() / "guard.log"
