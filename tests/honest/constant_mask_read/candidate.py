# Reads a mask that the problem always draws the same: nothing is left out.
# problem: masked
# expects: right
import torch


def run(x, attention_mask):
    scores = x + attention_mask
    raised = torch.exp(scores - scores.amax(-1, keepdim=True))
    return raised / raised.sum(-1, keepdim=True)
