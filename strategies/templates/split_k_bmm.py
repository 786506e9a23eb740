"""Splitting K by hand where the output has too few tiles: a batched product, then one small sum."""

import torch


def run(x, weight):
    """Return x @ weight; submit with destination_passing=false."""
    rows, depth = x.shape
    columns = weight.shape[1]
    # Enough pieces to occupy the device, few enough that the partial outputs stay small.
    pieces = next((p for p in (16, 8, 4, 2) if depth % p == 0 and depth // p >= 256), 1)
    if pieces == 1 or rows * columns > 1 << 16:
        return x @ weight
    left = x.view(rows, pieces, depth // pieces).transpose(0, 1)  # views: nothing is copied
    right = weight.view(pieces, depth // pieces, columns)
    # Partial sums leave in the inputs' dtype: for 16-bit inputs check the tolerance first.
    return torch.bmm(left, right).sum(0)
