"""Shared memory of conclusions: wins and traps with their evidence."""
