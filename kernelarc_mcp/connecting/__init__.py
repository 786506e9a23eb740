"""Connecting a client: what each one must be told, where it looks for it, and whether it works."""
