"""Fusion gated by shape: few tokens share one wide product per step, many keep products that fill the device."""

import torch
import torch.nn.functional as F

EPSILON = 1e-6
FEW = 64
"""Up to so many tokens a product only reads its weight, and each launch counts."""


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
    dim, width = 2 * cos.shape[-1], hidden_states.shape[-1]
    tokens = hidden_states.numel() // width
    x = F.rms_norm(hidden_states, (width,), input_gain, EPSILON)
    q = _turned(_heads(F.linear(x, q_proj_weight), dim), cos, sin)
    k = _turned(_heads(F.linear(x, k_proj_weight), dim), cos, sin)
    v = _heads(F.linear(x, v_proj_weight), dim)
    if hidden_states.shape[1] == 1:
        # A token that sees only itself takes its own value.
        mixed = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    else:
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    mixed = mixed.transpose(1, 2).reshape(tokens, -1)
    flat = output.view(tokens, width)
    if tokens <= FEW:
        flat.copy_(hidden_states.reshape(tokens, width))
        flat.addmm_(mixed, o_proj_weight.t())
    else:
        torch.mm(mixed, o_proj_weight.t(), out=flat)
        flat.add_(hidden_states.reshape(tokens, width))
    x = F.rms_norm(flat, (width,), post_gain, EPSILON)
    inner = F.silu(F.linear(x, gate_proj_weight)).mul_(F.linear(x, up_proj_weight))
    flat.addmm_(inner, down_proj_weight.t())


def _heads(x, dim):
    return x.unflatten(-1, (-1, dim)).transpose(1, 2)


def _turned(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
