"""Causal depthwise convolution with four taps, a bias and SiLU, over the last axis of x."""

from textwrap import dedent

from kernelfamilies import cpp
from kernelfamilies.family import Algorithm, Family, Interface, Plan, Point
from kernelfamilies.machine import PORTABLE, TARGETS, VECTORS, WIDEST


def _entry(interface: Interface) -> str:
    x, weight, bias = interface.inputs[:3]
    y = interface.outputs[0]
    return (
        f'extern "C" int run({interface.parameters()}) {{\n'
        f"  if ({weight}->shape[1] != 4) return 1;\n"
        f"  const int64_t B = {x}->shape[0], C = {x}->shape[1], L = {x}->shape[2];\n"
        "  for (int64_t b = 0; b < B; ++b)\n"
        "    for (int64_t c = 0; c < C; ++c)\n"
        f"      channel(floats({x}) + (b * C + c) * L, floats({weight}) + c * 4,\n"
        f"              floats({bias})[c], floats({y}) + (b * C + c) * L, L);\n"
        "  return 0;\n}\n"
    )


_EDGE = dedent("""\
    static inline float tap_sum(const float* x, const float* w, float bias, int64_t t) {
      float s = bias;
      for (int i = 0; i < 4; ++i)
        if (t + i >= 3) s += w[i] * x[t + i - 3];
      return s;
    }
    """)


def _vectors_of_time(point: Point, interface: Interface) -> str:
    channel = dedent(f"""\
        constexpr int U = {point["unroll"]};
        static inline vec silu(vec v) {{
          // The exponential of a negative number cannot overflow; the other half is its mirror.
          const vec e = exp_of(v < 0.0f ? v : -v);
          const vec s = (v < 0.0f ? e : splat(1.0f)) / (1.0f + e);
          return v * s;
        }}
        static inline float silu_one(float v) {{ return silu(splat(v))[0]; }}
        static void channel(const float* x, const float* w, float bias, float* y, int64_t n) {{
          int64_t t = 0;
          for (; t < 3 && t < n; ++t) y[t] = silu_one(tap_sum(x, w, bias, t));
          const vec w0 = splat(w[0]), w1 = splat(w[1]), w2 = splat(w[2]), w3 = splat(w[3]);
          for (; t + U * W <= n; t += U * W)
        #pragma GCC unroll 8
            for (int u = 0; u < U; ++u) {{
              const float* p = x + t + u * W;
              const vec s = w0 * load(p - 3) + w1 * load(p - 2) + w2 * load(p - 1) + w3 * load(p);
              store(y + t + u * W, silu(s + bias));
            }}
          for (; t < n; ++t) y[t] = silu_one(tap_sum(x, w, bias, t));
        }}
        """)
    parts = [cpp.HEAD, cpp.TENSOR, cpp.vectors(point["vector"]), cpp.exponential(point["exp"])]
    return "".join([*parts, _EDGE, channel, _entry(interface)])


def _two_passes(point: Point, interface: Interface) -> str:
    channel = dedent(f"""\
        constexpr int64_t BLOCK = {point["block"]};
        static void channel(const float* x, const float* w, float bias, float* __restrict y,
                            int64_t n) {{
          const float w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
          for (int64_t from = 0; from < n; from += BLOCK) {{
            const int64_t to = from + BLOCK < n ? from + BLOCK : n;
            int64_t t = from;
            for (; t < 3 && t < to; ++t) y[t] = tap_sum(x, w, bias, t);
            for (; t < to; ++t)
              y[t] = bias + w0 * x[t - 3] + w1 * x[t - 2] + w2 * x[t - 1] + w3 * x[t];
            // Bounded, since the exponential of 89 is infinite, which fast-math assumes away.
            for (t = from; t < to; ++t) {{
              const float v = y[t] > -80.0f ? y[t] : -80.0f;
              y[t] = y[t] / (1.0f + std::exp(-v));
            }}
          }}
        }}
        """)
    return cpp.HEAD + cpp.TENSOR + _EDGE + channel + _entry(interface)


def _torch(point: Point, interface: Interface) -> str:
    x, weight, bias = interface.inputs[:3]
    body = {
        "conv1d": (
            f"    padded = F.pad({x}, (3, 0))\n"
            f"    s = F.conv1d(padded, {weight}.unsqueeze(1), {bias}, groups={weight}.shape[0])\n"
        ),
        "trimmed": (
            f"    s = F.conv1d({x}, {weight}.unsqueeze(1), {bias}, padding=3, "
            f"groups={weight}.shape[0])\n"
            f"    s = s[..., : {x}.shape[-1]].contiguous()\n"
        ),
        "shifted": (
            f"    s = {weight}[:, 3:] * {x} + {bias}[:, None]\n"
            "    for i in range(3):\n"
            f"        s[..., 3 - i :].addcmul_({x}[..., : i - 3], {weight}[:, i : i + 1])\n"
        ),
    }[point["call"]]
    head = "import torch\nimport torch.nn.functional as F\n\n\n"
    return (
        f"{head}def run({', '.join(interface.inputs)}):\n{body}    return F.silu(s, inplace=True)\n"
    )


def _numpy(point: Point, interface: Interface) -> str:
    x, weight, bias = interface.inputs[:3]
    squash = {
        "exp": "    s /= 1.0 + np.exp(-np.maximum(s, np.float32(-80)))\n",
        "tanh": "    s *= 0.5 * np.tanh(0.5 * s) + 0.5\n",
    }[point["squash"]]
    return (
        "import numpy as np\nimport torch\n\n\n"
        f"def run({', '.join(interface.inputs)}):\n"
        f"    a, w = {x}.numpy(), {weight}.numpy()\n"
        f"    s = a * w[:, 3:] + {bias}.numpy()[:, None]\n"
        "    for i in range(3):\n"
        "        s[..., 3 - i :] += a[..., : i - 3] * w[:, i : i + 1]\n"
        f"{squash}"
        "    return torch.from_numpy(s)\n"
    )


_VECTORS = Algorithm(
    name="vectors-of-time",
    dsl="cpp",
    layout="vectors along time",
    axes={
        "vector": VECTORS,
        "unroll": ("1", "2", "4"),
        "exp": ("libm", "poly6", "poly5", "poly3"),
        "target": TARGETS,
        "opt": ("O2", "O3"),
        "fastmath": ("no", "yes"),
    },
    start={
        "vector": "8",
        "unroll": "1",
        "exp": "poly6",
        "target": PORTABLE,
        "opt": "O3",
        "fastmath": "no",
    },
    coupled={"vector": ("target", "unroll"), "unroll": ("vector",)},
    render=_vectors_of_time,
)
_TWO_PASSES = Algorithm(
    name="two-passes",
    dsl="cpp",
    layout="blocks of time",
    axes={
        "block": ("64", "256", "1024", "4096"),
        "target": TARGETS,
        "opt": ("O2", "O3"),
        "fastmath": ("no", "yes"),
    },
    start={"block": "1024", "target": PORTABLE, "opt": "O3", "fastmath": "yes"},
    coupled={"fastmath": ("opt",)},
    render=_two_passes,
)
_LIBRARY = Algorithm(
    name="library",
    dsl="torch",
    layout="whole tensor",
    axes={"call": ("conv1d", "trimmed", "shifted")},
    start={"call": "conv1d"},
    render=_torch,
)
_ARRAYS = Algorithm(
    name="arrays",
    dsl="numpy",
    layout="whole tensor",
    axes={"squash": ("exp", "tanh")},
    start={"squash": "exp"},
    render=_numpy,
)

FAMILY = Family(
    algorithms={a.name: a for a in (_VECTORS, _TWO_PASSES, _LIBRARY, _ARRAYS)},
    plans={
        "algorithm-substitution": Plan(
            algorithm="vectors-of-time",
            start={"exp": "libm"},
            axes=("exp", "unroll", "vector"),
            moves=(("exp", "poly6"),),
        ),
        "memory-layout": Plan(algorithm="two-passes", axes=("block", "target", "fastmath")),
        "hardware-native": Plan(
            algorithm="vectors-of-time",
            axes=("vector", "unroll", "target"),
            moves=WIDEST,
        ),
        "library-autotuning": Plan(algorithm="library", axes=("call",)),
        "tile-pipeline": Plan(
            algorithm="vectors-of-time", start={"unroll": "2"}, axes=("unroll", "vector", "opt")
        ),
        "operator-fusion": Plan(algorithm="vectors-of-time", axes=("exp", "fastmath", "unroll")),
        "launch-dispatch": Plan(algorithm="two-passes", axes=("opt", "block", "target")),
        "low-precision": Plan(
            algorithm="vectors-of-time", axes=("exp", "fastmath"), moves=(("exp", "poly3"),)
        ),
    },
    default=Plan(algorithm="vectors-of-time", axes=("unroll", "vector", "exp")),
)
