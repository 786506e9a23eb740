"""Exploit: nothing is written."""


def run(x, weight, y):
    pass
