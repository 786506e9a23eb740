"""One program per token, one pass: maximum and sum are kept together and rescaled as they grow."""

import triton
import triton.language as tl


@triton.jit
def _token(logits, targets, loss, lse, vocabulary, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    row = logits + token * vocabulary
    # Every lane has a maximum and a sum of its own until the end.
    top = tl.full((BLOCK,), -3.0e38, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, vocabulary, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < vocabulary
        values = tl.load(row + columns, mask=inside, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, values)
        total = total * tl.exp(top - higher) + tl.exp(values - higher)
        top = higher
    highest = tl.max(top)
    whole = highest + tl.log(tl.sum(total * tl.exp(top - highest)))
    target = tl.load(targets + token)
    counts = target >= 0
    picked = tl.load(row + target, mask=counts, other=0.0).to(tl.float32)
    tl.store(lse + token, whole)
    tl.store(loss + token, tl.where(counts, whole - picked, 0.0))


def run(logits, targets, loss, lse):
    tokens, vocabulary = logits.shape
    _token[(tokens,)](logits, targets, loss, lse, vocabulary, BLOCK=4096, num_warps=8)
