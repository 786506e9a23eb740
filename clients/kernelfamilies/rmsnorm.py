"""RMS normalisation of rows: y[i, j] = x[i, j] * weight[j] / sqrt(mean(x[i]^2) + eps)."""

from textwrap import dedent

from kernelfamilies import cpp
from kernelfamilies.family import Algorithm, Family, Interface, Plan, Point
from kernelfamilies.machine import PORTABLE, TARGETS, VECTORS, WIDEST


def _eps(interface: Interface) -> str:
    named = [name for name in interface.scalars if "eps" in name]
    if named:
        return named[0]
    return interface.constant(r"([0-9]+(?:\.[0-9]+)?e-[0-9]+|0\.0+[1-9]\d*)", "1e-6")


def _entry(interface: Interface, body: str) -> str:
    x, weight = interface.tensors[:2]
    y = interface.outputs[0]
    return (
        f'extern "C" int run({interface.parameters()}) {{\n'
        f"  const int64_t C = {x}->shape[{x}->ndim - 1];\n"
        f"  int64_t R = 1;\n"
        f"  for (int i = 0; i + 1 < {x}->ndim; ++i) R *= {x}->shape[i];\n"
        f"  const float* px = floats({x});\n"
        f"  const float* pw = floats({weight});\n"
        f"  float* py = floats({y});\n"
        f"  const double eps_value = {_eps(interface)};\n"
        f"{body}"
        "  return 0;\n}\n"
    )


def _two_sweep(point: Point, interface: Interface) -> str:
    wide = point["sum"] == "double"
    accumulator = (
        f"typedef double sums_t __attribute__((vector_size({8 * cpp.width(point['vector'])})));\n"
        if wide
        else "typedef vec sums_t;\n"
    )
    square = "__builtin_convertvector(v * v, sums_t)" if wide else "v * v"
    distance = int(point["prefetch"])
    prefetch = f"    __builtin_prefetch(x + j + {distance // 4});\n" if distance else ""
    rows = dedent(f"""\
        constexpr int A = {point["accumulators"]};
        // A float sum of thousands of squares loses digits: it is emptied into a double in time.
        constexpr int64_t PART = 2048;
        static inline float inverse_root(const float* x, int64_t n, double eps_value) {{
          double s = 0;
          int64_t j = 0;
          while (j + A * W <= n) {{
            const int64_t end = j + PART < n ? j + PART : n;
            sums_t sums[A] = {{}};
            for (; j + A * W <= end; j += A * W) {{
        {prefetch}#pragma GCC unroll 16
              for (int i = 0; i < A; ++i) {{
                vec v = load(x + j + i * W);
                sums[i] += {square};
              }}
            }}
            for (int i = 0; i < A; ++i)
              for (int lane = 0; lane < W; ++lane) s += sums[i][lane];
          }}
          for (; j < n; ++j) s += double(x[j]) * x[j];
          return float(1.0 / std::sqrt(s / n + eps_value));
        }}
        static inline void scale_row(const float* x, const float* w, float* y, float r, int64_t n) {{
          int64_t j = 0;
          for (; j + W <= n; j += W) store(y + j, load(x + j) * r * load(w + j));
          for (; j < n; ++j) y[j] = x[j] * r * w[j];
        }}
        """)
    body = (
        "  for (int64_t i = 0; i < R; ++i) {\n"
        "    float r = inverse_root(px + i * C, C, eps_value);\n"
        "    scale_row(px + i * C, pw, py + i * C, r, C);\n"
        "  }\n"
    )
    parts = [cpp.HEAD, cpp.TENSOR, cpp.vectors(point["vector"]), accumulator, rows]
    return "".join(parts) + _entry(interface, body)


def _row_groups(point: Point, interface: Interface) -> str:
    group = dedent("""\
        template <int G>
        static void normalise(const float* x, const float* w, float* y, int64_t n, double e) {
          // A float sum of thousands of squares loses digits: it is emptied into a double in time.
          constexpr int64_t PART = 1024;
          double sums[G] = {};
          float factor[G];
          int64_t j = 0;
          while (j + W <= n) {
            const int64_t end = j + PART < n ? j + PART : n;
            vec squares[G] = {};
            for (; j + W <= end; j += W)
              for (int g = 0; g < G; ++g) {
                vec v = load(x + g * n + j);
                squares[g] += v * v;
              }
            for (int g = 0; g < G; ++g) sums[g] += total(squares[g]);
          }
          for (int g = 0; g < G; ++g) {
            for (int64_t t = j; t < n; ++t) sums[g] += double(x[g * n + t]) * x[g * n + t];
            factor[g] = float(1.0 / std::sqrt(sums[g] / n + e));
          }
          for (j = 0; j + W <= n; j += W) {
            vec weight = load(w + j);
            for (int g = 0; g < G; ++g)
              store(y + g * n + j, load(x + g * n + j) * weight * factor[g]);
          }
          for (; j < n; ++j)
            for (int g = 0; g < G; ++g) y[g * n + j] = x[g * n + j] * w[j] * factor[g];
        }
        """)
    size = point["rows"]
    body = (
        "  int64_t i = 0;\n"
        f"  for (; i + {size} <= R; i += {size})\n"
        f"    normalise<{size}>(px + i * C, pw, py + i * C, C, eps_value);\n"
        "  for (; i < R; ++i) normalise<1>(px + i * C, pw, py + i * C, C, eps_value);\n"
    )
    vector = point["vector"]
    parts = [cpp.HEAD, cpp.TENSOR, cpp.vectors(vector), cpp.sum_lanes(vector), group]
    return "".join(parts) + _entry(interface, body)


def _torch(point: Point, interface: Interface) -> str:
    x, weight = interface.tensors[:2]
    call = {
        "fused": f"F.rms_norm({x}, {x}.shape[-1:], {weight}, {_eps(interface)})",
        "norm": (
            f"{x} * (({x}.shape[-1] ** -0.5 * torch.linalg.vector_norm({x}, dim=-1, keepdim=True))"
            f".square_().add_({_eps(interface)}).rsqrt_()) * {weight}"
        ),
        "mean": f"{x} * {x}.square().mean(-1, keepdim=True).add_({_eps(interface)}).rsqrt_()"
        f" * {weight}",
    }[point["call"]]
    return (
        "import torch\nimport torch.nn.functional as F\n\n\n"
        f"def run({', '.join(interface.inputs)}):\n    return {call}\n"
    )


def _numpy(point: Point, interface: Interface) -> str:
    x, weight = interface.tensors[:2]
    reduce = {
        "einsum": 'np.einsum("...i,...i->...", a, a)[..., None]',
        "square": "np.square(a).sum(-1, keepdims=True)",
    }[point["reduce"]]
    return (
        "import numpy as np\nimport torch\n\n\n"
        f"def run({', '.join(interface.inputs)}):\n"
        f"    a = {x}.numpy()\n"
        f"    r = 1.0 / np.sqrt({reduce} / a.shape[-1] + {_eps(interface)})\n"
        f"    y = a * r.astype(np.float32)\n"
        f"    y *= {weight}.numpy()\n"
        "    return torch.from_numpy(y)\n"
    )


_TWO_SWEEP = Algorithm(
    name="two-sweep",
    dsl="cpp",
    layout="row by row",
    axes={
        "vector": VECTORS,
        "accumulators": ("1", "2", "4", "8"),
        "sum": ("double", "float"),
        "prefetch": ("0", "512", "2048"),
        "target": TARGETS,
        "opt": ("O2", "O3"),
        "fastmath": ("no", "yes"),
    },
    start={
        "vector": "8",
        "accumulators": "2",
        "sum": "float",
        "prefetch": "0",
        "target": PORTABLE,
        "opt": "O3",
        "fastmath": "no",
    },
    coupled={"vector": ("target", "accumulators"), "accumulators": ("vector",)},
    render=_two_sweep,
)
_ROW_GROUPS = Algorithm(
    name="row-groups",
    dsl="cpp",
    layout="groups of rows",
    axes={
        "vector": VECTORS,
        "rows": ("1", "2", "4", "8"),
        "target": TARGETS,
        "opt": ("O2", "O3"),
        "fastmath": ("no", "yes"),
    },
    start={"vector": "8", "rows": "4", "target": PORTABLE, "opt": "O3", "fastmath": "no"},
    coupled={"vector": ("target",)},
    render=_row_groups,
)
LIBRARY = Algorithm(
    name="library",
    dsl="torch",
    layout="whole tensor",
    axes={"call": ("fused", "norm", "mean")},
    start={"call": "fused"},
    render=_torch,
)
_ARRAYS = Algorithm(
    name="arrays",
    dsl="numpy",
    layout="whole tensor",
    axes={"reduce": ("square", "einsum")},
    start={"reduce": "square"},
    render=_numpy,
)

FAMILY = Family(
    algorithms={a.name: a for a in (_TWO_SWEEP, _ROW_GROUPS, LIBRARY, _ARRAYS)},
    plans={
        "operator-fusion": Plan(
            algorithm="two-sweep",
            start={"sum": "double"},
            axes=("sum", "accumulators", "vector", "fastmath", "prefetch"),
        ),
        "hardware-native": Plan(
            algorithm="two-sweep",
            start={"accumulators": "4"},
            axes=("vector", "target", "accumulators", "prefetch"),
            moves=WIDEST,
        ),
        "memory-layout": Plan(algorithm="row-groups", axes=("rows", "vector", "target")),
        "low-precision": Plan(
            algorithm="two-sweep",
            start={"sum": "double", "accumulators": "1"},
            axes=("sum", "fastmath", "accumulators", "vector"),
        ),
        "tile-pipeline": Plan(
            algorithm="row-groups", start={"rows": "2"}, axes=("rows", "vector", "opt", "target")
        ),
        "launch-dispatch": Plan(algorithm="two-sweep", axes=("opt", "target", "prefetch")),
        "library-autotuning": Plan(algorithm="library", axes=("call",)),
        "algorithm-substitution": Plan(algorithm="row-groups", axes=("rows", "fastmath", "vector")),
    },
    default=Plan(algorithm="two-sweep", axes=("accumulators", "vector", "target")),
)
