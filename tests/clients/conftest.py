"""Puts the clients' folder on the path, as running one of its scripts does."""

import sys

from kernelarc_mcp.data import data_dir

sys.path.insert(0, str(data_dir("clients")))
