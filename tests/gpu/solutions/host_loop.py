"""Fault: its process never comes back from a call."""


def run(x, weight, y):
    while True:
        pass
