"""Scores: how far a solution is from a bound and from a baseline; pure, no torch."""
