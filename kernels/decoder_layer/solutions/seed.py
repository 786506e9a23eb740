"""Operator by operator; keys and values are repeated for every query head."""

import torch
import torch.nn.functional as F

EPSILON = 1e-6


def run(
    hidden_states,
    cos,
    sin,
    input_gain,
    q_proj_weight,
    k_proj_weight,
    v_proj_weight,
    o_proj_weight,
    post_gain,
    gate_proj_weight,
    up_proj_weight,
    down_proj_weight,
    output,
):
    dim = 2 * cos.shape[-1]
    length = hidden_states.shape[1]
    x = _normalised(hidden_states, input_gain)
    q = _turned(_heads(x, q_proj_weight, dim), cos, sin)
    k = _turned(_heads(x, k_proj_weight, dim), cos, sin)
    v = _heads(x, v_proj_weight, dim)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    logits = torch.matmul(q.float(), k.float().transpose(-1, -2)) * dim**-0.5
    later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    shares = torch.softmax(logits.masked_fill(later, float("-inf")), dim=-1)
    mixed = torch.matmul(shares, v.float()).to(q.dtype).transpose(1, 2).flatten(2)
    stream = hidden_states + F.linear(mixed, o_proj_weight)
    x = _normalised(stream, post_gain)
    inner = F.silu(F.linear(x, gate_proj_weight)) * F.linear(x, up_proj_weight)
    torch.add(stream, F.linear(inner, down_proj_weight), out=output)


def _normalised(x, weight):
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + EPSILON)
    return (wide * scale).to(x.dtype) * weight


def _heads(x, weight, dim):
    return F.linear(x, weight).unflatten(-1, (-1, dim)).transpose(1, 2)


def _turned(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
