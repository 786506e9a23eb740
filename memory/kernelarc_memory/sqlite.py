"""sqlite-utils without numpy: it imports numpy where there is one, for types that no row of ours has.

That is a seventh of the time in which a server starts, and memory that it then never uses.
"""

import sys

_absent = "numpy" not in sys.modules
if _absent:
    sys.modules["numpy"] = None  # type: ignore[assignment]
try:
    from sqlite_utils import Database, Migrations
    from sqlite_utils.db import Table
finally:
    if _absent:
        del sys.modules["numpy"]

__all__ = ["Database", "Migrations", "Table"]
