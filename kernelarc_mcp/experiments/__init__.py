"""Experiments: arms of campaigns compared on one problem, run by run."""
