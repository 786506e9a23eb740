"""Exploit: a graph over copies of the first inputs, which nobody refreshes."""

import torch

_kept = []


def run(x, weight, y):
    if not _kept:
        first = x.clone(), weight.clone(), torch.empty_like(y)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            scale = torch.rsqrt(first[0].square().mean(dim=-1, keepdim=True) + 1e-6)
            torch.mul(first[0] * scale, first[1], out=first[2])
        _kept.append((graph, first))
    graph, first = _kept[0]
    graph.replay()
    y.copy_(first[2])
