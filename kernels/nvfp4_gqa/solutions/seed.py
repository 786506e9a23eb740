"""The emulation step by step: every operand is rounded to NVFP4 and written out again in float32."""

import torch

BLOCK = 16
LARGEST = 6.0 * 448.0


def run(q, k, v, attention_mask, attn_output, attn_weights):
    groups = q.shape[1] // k.shape[1]
    mask = attention_mask.float()
    queries = _rounded(q.float(), _scale(q))
    keys = _rounded(k.float(), _scale(k)).transpose(-1, -2)
    values = _rounded(v.float().transpose(-1, -2).contiguous(), _scale(v)).transpose(-1, -2)
    for head in range(q.shape[1]):
        scores = queries[:, head] @ keys[:, head // groups] * q.shape[-1] ** -0.5 + mask[:, 0]
        weights = torch.softmax(scores, dim=-1)
        attn_weights[:, head] = weights
        attn_output[:, head] = _rounded(weights, 1.0 / LARGEST) @ values[:, head // groups]


def _scale(x):
    return x.float().abs().amax().clamp_min(2.0**-100) / LARGEST


def _rounded(x, tensor_scale):
    blocks = x.unflatten(-1, (-1, BLOCK))
    scale = (blocks.abs().amax(dim=-1, keepdim=True) / (6.0 * tensor_scale)).clamp_max(448.0)
    scale = scale.to(torch.float8_e4m3fn).float() * tensor_scale
    size = (blocks / torch.where(scale == 0.0, 1.0, scale)).abs().clamp_max(6.0)
    step = torch.where(size < 2.0, 0.5, torch.where(size < 4.0, 1.0, 2.0))
    codes = torch.copysign(torch.round(size / step) * step, blocks)
    return (codes * scale).flatten(-2)
