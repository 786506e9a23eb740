"""Fault: its process ends in the middle of a call, with work queued."""

import os


def run(x, weight, y):
    y.copy_(x)
    os.kill(os.getpid(), 11)
