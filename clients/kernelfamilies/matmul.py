"""A matrix product with a residual: y[m, n] = residual[m, n] + sum over k of a[m, k] * b[k, n]."""

from textwrap import dedent

from kernelfamilies import cpp
from kernelfamilies.family import Algorithm, Family, Interface, Plan, Point
from kernelfamilies.machine import PORTABLE, TARGETS, VECTORS, WIDEST


def entry(interface: Interface) -> str:
    """Return the C++ entry, which calls `product` with the tensors' numbers and the three extents."""
    a, b, residual = interface.inputs[:3]
    y = interface.outputs[0]
    return (
        f'extern "C" int run({interface.parameters()}) {{\n'
        f"  const int64_t M = {a}->shape[0], K = {a}->shape[1], N = {b}->shape[1];\n"
        f"  product(floats({a}), floats({b}), floats({residual}), floats({y}), M, N, K);\n"
        "  return 0;\n}\n"
    )


def _loops(point: Point, interface: Interface) -> str:
    if point["order"] == "ijk":
        nest = dedent("""\
            for (int64_t i = 0; i < M; ++i)
              for (int64_t j = 0; j < N; ++j) {
                float s = residual[i * N + j];
                for (int64_t k = 0; k < K; ++k) s += a[i * K + k] * b[k * N + j];
                y[i * N + j] = s;
              }
            """)
    else:
        nest = dedent(f"""\
            constexpr int64_t BLOCK = {point["kblock"]};
            std::memcpy(y, residual, sizeof(float) * M * N);
            for (int64_t from = 0; from < K; from += BLOCK) {{
              const int64_t to = from + BLOCK < K ? from + BLOCK : K;
              for (int64_t i = 0; i < M; ++i) {{
                float* __restrict out = y + i * N;
                for (int64_t k = from; k < to; ++k) {{
                  const float v = a[i * K + k];
                  const float* __restrict row = b + k * N;
                  for (int64_t j = 0; j < N; ++j) out[j] += v * row[j];
                }}
              }}
            }}
            """)
    function = (
        "static void product(const float* a, const float* b, const float* residual, float* y,\n"
        "                    int64_t M, int64_t N, int64_t K) {\n"
        f"{nest}}}\n"
    )
    return cpp.HEAD + cpp.TENSOR + function + entry(interface)


_TILE = dedent("""\
    template <int ROWS>
    static void tile(const float* a, int64_t lda, const float* b, int64_t ldb, const float* from,
                     float* y, int64_t ldy, int64_t depth) {
      vec acc[ROWS][NV];
    #pragma GCC unroll 16
      for (int m = 0; m < ROWS; ++m)
    #pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) acc[m][v] = load(from + m * ldy + v * W);
      for (int64_t k = 0; k < depth; ++k) {
        vec row[NV];
    #pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) row[v] = load(b + k * ldb + v * W);
    #pragma GCC unroll 16
        for (int m = 0; m < ROWS; ++m) {
          const vec factor = splat(a[m * lda + k]);
    #pragma GCC unroll 4
          for (int v = 0; v < NV; ++v) acc[m][v] += factor * row[v];
        }
      }
    #pragma GCC unroll 16
      for (int m = 0; m < ROWS; ++m)
    #pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) store(y + m * ldy + v * W, acc[m][v]);
    }
    """)


def _register_tile(point: Point, interface: Interface) -> str:
    packed = point["pack"] == "yes"
    pack = (
        "      for (int64_t k = 0; k < depth; ++k)\n"
        "        std::memcpy(panel + k * NR, b + (k0 + k) * N + j, sizeof(float) * NR);\n"
        if packed
        else ""
    )
    strip, stride = ("panel", "NR") if packed else ("b + k0 * N + j", "N")
    outer, inner = (
        "  for (int64_t k0 = 0; k0 < K; k0 += KC) {\n"
        "    const int64_t depth = k0 + KC < K ? KC : K - k0;\n"
        "    const float* from = k0 ? y : residual;\n"
        "    int64_t j = 0;\n"
        "    for (; j + NR <= N; j += NR) {\n",
        "      int64_t i = 0;\n"
        "      for (; i + MR <= M; i += MR)\n"
        f"        tile<MR>(a + i * K + k0, K, {strip}, {stride}, from + i * N + j,\n"
        "                 y + i * N + j, N, depth);\n"
        "      for (; i < M; ++i)\n"
        f"        tile<1>(a + i * K + k0, K, {strip}, {stride}, from + i * N + j,\n"
        "                y + i * N + j, N, depth);\n"
        "    }\n",
    )
    edge = (
        "    for (int64_t i = 0; i < M && j < N; ++i)\n"
        "      for (int64_t t = j; t < N; ++t) {\n"
        "        float s = from[i * N + t];\n"
        "        for (int64_t k = 0; k < depth; ++k) s += a[i * K + k0 + k] * b[(k0 + k) * N + t];\n"
        "        y[i * N + t] = s;\n"
        "      }\n"
        "  }\n"
    )
    constants = (
        f"constexpr int MR = {point['mr']}, NV = {point['nv']}, NR = NV * W;\n"
        f"constexpr int64_t KC = {point['kc']};\n"
    )
    buffer = "alignas(64) static float panel[KC * NR];\n" if packed else ""
    function = (
        f"{buffer}"
        "static void product(const float* a, const float* b, const float* residual, float* y,\n"
        "                    int64_t M, int64_t N, int64_t K) {\n"
        f"{outer}{pack}{inner}{edge}}}\n"
    )
    parts = [cpp.HEAD, cpp.TENSOR, cpp.vectors(point["vector"]), constants, _TILE, function]
    return "".join(parts) + entry(interface)


def _torch(point: Point, interface: Interface) -> str:
    a, b, residual = interface.inputs[:3]
    call = {
        "addmm": f"torch.addmm({residual}, {a}, {b})",
        "sum": f"torch.mm({a}, {b}).add_({residual})",
        "batched": f"torch.baddbmm({residual}[None], {a}[None], {b}[None])[0]",
        "turned": f"torch.mm({b}.T, {a}.T).T + {residual}",
    }[point["call"]]
    return f"import torch\n\n\ndef run({', '.join(interface.inputs)}):\n    return {call}\n"


def _numpy(point: Point, interface: Interface) -> str:
    a, b, residual = interface.inputs[:3]
    product = {
        "matmul": f"    y = np.matmul({a}.numpy(), {b}.numpy())\n",
        "dot": f"    y = {a}.numpy().dot({b}.numpy())\n",
    }[point["call"]]
    return (
        "import numpy as np\nimport torch\n\n\n"
        f"def run({', '.join(interface.inputs)}):\n"
        f"{product}"
        f"    np.add(y, {residual}.numpy(), out=y)\n"
        "    return torch.from_numpy(y)\n"
    )


_LOOPS = Algorithm(
    name="loops",
    dsl="cpp",
    layout="rows of b",
    axes={
        "order": ("ijk", "ikj"),
        "kblock": ("32", "128", "512"),
        "target": TARGETS,
        "opt": ("O2", "O3"),
        "fastmath": ("no", "yes"),
    },
    start={"order": "ikj", "kblock": "128", "target": PORTABLE, "opt": "O3", "fastmath": "no"},
    render=_loops,
    canonical=lambda point: dict(point) | ({"kblock": "128"} if point["order"] == "ijk" else {}),
)
_REGISTER_TILE = Algorithm(
    name="register-tile",
    dsl="cpp",
    layout="strips of b",
    axes={
        "mr": ("1", "2", "4", "6", "8"),
        "nv": ("1", "2", "3", "4"),
        "kc": ("64", "128", "256", "512"),
        "pack": ("no", "yes"),
        "vector": VECTORS,
        "target": TARGETS,
        "opt": ("O2", "O3"),
        "fastmath": ("no", "yes"),
    },
    start={
        "mr": "4",
        "nv": "2",
        "kc": "256",
        "pack": "no",
        "vector": "8",
        "target": PORTABLE,
        "opt": "O3",
        "fastmath": "no",
    },
    coupled={"vector": ("target", "mr", "nv"), "mr": ("nv", "vector"), "nv": ("mr", "vector")},
    render=_register_tile,
)
_LIBRARY = Algorithm(
    name="library",
    dsl="torch",
    layout="whole matrices",
    axes={"call": ("addmm", "sum", "batched", "turned")},
    start={"call": "sum"},
    render=_torch,
)
_ARRAYS = Algorithm(
    name="arrays",
    dsl="numpy",
    layout="whole matrices",
    axes={"call": ("matmul", "dot")},
    start={"call": "matmul"},
    render=_numpy,
)

FAMILY = Family(
    algorithms={a.name: a for a in (_LOOPS, _REGISTER_TILE, _LIBRARY, _ARRAYS)},
    plans={
        "memory-layout": Plan(
            algorithm="register-tile",
            start={"mr": "2"},
            axes=("mr", "pack", "kc", "target", "vector"),
        ),
        "hardware-native": Plan(
            algorithm="register-tile",
            axes=("vector", "mr", "nv", "target", "pack"),
            moves=WIDEST,
        ),
        "tile-pipeline": Plan(
            algorithm="register-tile", axes=("mr", "nv", "kc", "pack", "vector", "opt")
        ),
        "operator-fusion": Plan(
            algorithm="register-tile", start={"nv": "1"}, axes=("nv", "mr", "kc", "pack")
        ),
        "launch-dispatch": Plan(
            algorithm="register-tile", start={"opt": "O2"}, axes=("opt", "target", "kc", "mr")
        ),
        "low-precision": Plan(
            algorithm="loops", axes=("fastmath", "kblock", "target", "opt", "order")
        ),
        "library-autotuning": Plan(algorithm="library", axes=("call",)),
        "algorithm-substitution": Plan(algorithm="loops", axes=("order", "kblock", "fastmath")),
    },
    default=Plan(algorithm="register-tile", axes=("mr", "nv", "kc", "pack", "vector")),
)
