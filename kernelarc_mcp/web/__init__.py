"""The HTTP server's front: who is let in, how much of what, and what it counts."""
