"""A product with its residual in one library call, and the call chosen from a table made offline."""

import torch


def _addend(x, weight, residual, y):
    torch.addmm(residual, x, weight, out=y)  # the sum rides in the product's epilogue


def _transposed(x, weight, residual, y):
    # The same product as C^T = B^T A^T: another kernel, better for few rows on some libraries.
    torch.addmm(residual.t(), weight.t(), x.t(), out=y.t())


def _in_place(x, weight, residual, y):
    y.copy_(residual)
    y.addmm_(x, weight)  # beta = 1 on the output itself


# Found offline, on the device of the campaign: largest m for which the variant won.
TABLE = ((16, _transposed), (256, _in_place))


def run(x, weight, residual, y):
    """Write residual + x @ weight to y; submit with destination_passing=true."""
    rows = x.shape[0]
    for most, variant in TABLE:
        if rows <= most:
            return variant(x, weight, residual, y)
    return _addend(x, weight, residual, y)
