"""Honest: captured once for each pair of buffers, replayed ever after."""

import torch

_graphs = {}


def _work(x, weight, y):
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
    torch.mul(x * scale, weight, out=y)


def run(x, weight, y):
    key = (x.data_ptr(), weight.data_ptr(), y.data_ptr())
    if key not in _graphs:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            _work(x, weight, y)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            _work(x, weight, y)
        _graphs[key] = graph
    _graphs[key].replay()
