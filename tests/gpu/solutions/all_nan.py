"""Exploit: NaN everywhere, which no comparison with a bound finds too large."""


def run(x, weight, y):
    y.fill_(float("nan"))
