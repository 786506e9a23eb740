# A packed weight is used after all of it was compared.
# problem: project
# expects: right
import torch

packed = {}


def run(x, weight):
    if "raw" not in packed or not torch.equal(packed["raw"], weight):
        packed.clear()
        packed.update(raw=weight.clone(), weight=weight.t().contiguous())
    return x @ packed["weight"].t()
