"""A small matrix product with a residual, in C++ only: four ways to walk it, each with axes of its own.

No library is asked, so that what an agent ends with is what its search found. `loops` and `register-tile`
are those of the larger product; here are two more.
"""

from textwrap import dedent

from kernelfamilies import cpp, matmul
from kernelfamilies.family import Algorithm, Family, Interface, Plan, Point
from kernelfamilies.machine import PORTABLE, TARGETS, VECTORS, WIDEST

_SIGNATURE = (
    "static void product(const float* a, const float* b, const float* residual, float* y,\n"
    "                    int64_t M, int64_t N, int64_t K) {\n"
)


def _whole(point: Point, interface: Interface, body: str, before: str = "") -> str:
    parts = [cpp.HEAD, cpp.TENSOR, cpp.vectors(point["vector"]), before, _SIGNATURE, body, "}\n"]
    return "".join(parts) + matmul.entry(interface)


def _row_sums(point: Point, interface: Interface) -> str:
    """Add up several rows of b at a time, so that a row of y is loaded and stored less often."""
    body = dedent(f"""\
          constexpr int KU = {point["kunroll"]};
          constexpr int64_t BLOCK = {point["block"]};
          std::memcpy(y, residual, sizeof(float) * M * N);
          for (int64_t from = 0; from < N; from += BLOCK) {{
            const int64_t to = from + BLOCK < N ? from + BLOCK : N;
            for (int64_t i = 0; i < M; ++i) {{
              float* out = y + i * N;
              int64_t k = 0;
              for (; k + KU <= K; k += KU) {{
                vec f[KU];
        #pragma GCC unroll 8
                for (int u = 0; u < KU; ++u) f[u] = splat(a[i * K + k + u]);
                int64_t j = from;
                for (; j + W <= to; j += W) {{
                  vec s = load(out + j);
        #pragma GCC unroll 8
                  for (int u = 0; u < KU; ++u) s += f[u] * load(b + (k + u) * N + j);
                  store(out + j, s);
                }}
                for (; j < to; ++j)
                  for (int u = 0; u < KU; ++u) out[j] += a[i * K + k + u] * b[(k + u) * N + j];
              }}
              for (; k < K; ++k)
                for (int64_t j = from; j < to; ++j) out[j] += a[i * K + k] * b[k * N + j];
            }}
          }}
        """)
    return _whole(point, interface, body)


def _dot_products(point: Point, interface: Interface) -> str:
    """Turn b once, then take dot products of rows: sums across the lanes of a vector at the end."""
    body = dedent(f"""\
          constexpr int COLUMNS = {point["columns"]};
          static std::vector<float> turned;
          turned.resize(N * K);
          for (int64_t k = 0; k < K; ++k)
            for (int64_t j = 0; j < N; ++j) turned[j * K + k] = b[k * N + j];
          for (int64_t i = 0; i < M; ++i) {{
            const float* row = a + i * K;
            for (int64_t j = 0; j < N; j += COLUMNS) {{
              const int columns = int(N - j < COLUMNS ? N - j : COLUMNS);
              vec s[COLUMNS] = {{}};
              int64_t k = 0;
              if (columns == COLUMNS)
                for (; k + W <= K; k += W) {{
                  const vec v = load(row + k);
        #pragma GCC unroll 8
                  for (int c = 0; c < COLUMNS; ++c) s[c] += v * load(&turned[(j + c) * K + k]);
                }}
              for (int c = 0; c < columns; ++c) {{
                float sum = residual[i * N + j + c] + total(s[c]);
                for (int64_t t = k; t < K; ++t) sum += row[t] * turned[(j + c) * K + t];
                y[i * N + j + c] = sum;
              }}
            }}
          }}
        """)
    before = "#include <vector>\n" + cpp.sum_lanes(point["vector"])
    return _whole(point, interface, body, before)


_FLAGS = {"target": TARGETS, "opt": ("O2", "O3"), "fastmath": ("no", "yes")}
_FIRST = {"vector": "8", "target": PORTABLE, "opt": "O3", "fastmath": "no"}
_ROW_SUMS = Algorithm(
    name="row-sums",
    dsl="cpp",
    layout="rows of b together",
    axes={
        "kunroll": ("1", "2", "4", "8"),
        "block": ("32", "64", "128", "512"),
        "vector": VECTORS,
        **_FLAGS,
    },
    start={"kunroll": "2", "block": "512", **_FIRST},
    coupled={"vector": ("target", "kunroll"), "kunroll": ("vector",)},
    render=_row_sums,
)
_DOT_PRODUCTS = Algorithm(
    name="dot-products",
    dsl="cpp",
    layout="columns of b turned into rows",
    axes={"columns": ("1", "2", "4", "6", "8"), "vector": VECTORS, **_FLAGS},
    start={"columns": "2", **_FIRST},
    coupled={"vector": ("target", "columns"), "columns": ("vector",)},
    render=_dot_products,
)
_SHARED = {name: matmul.FAMILY.algorithms[name] for name in ("loops", "register-tile")}

FAMILY = Family(
    algorithms={**_SHARED, _ROW_SUMS.name: _ROW_SUMS, _DOT_PRODUCTS.name: _DOT_PRODUCTS},
    plans={
        "library-autotuning": Plan(
            algorithm="loops", axes=("order", "kblock", "opt", "target", "fastmath")
        ),
        "operator-fusion": Plan(
            algorithm="row-sums", axes=("kunroll", "block", "vector", "target")
        ),
        "hardware-native": Plan(
            algorithm="register-tile",
            start={"mr": "2", "nv": "1"},
            axes=("vector", "mr", "nv", "target", "pack"),
            moves=WIDEST,
        ),
        "launch-dispatch": Plan(
            algorithm="row-sums", start={"opt": "O2"}, axes=("opt", "target", "block", "kunroll")
        ),
        "tile-pipeline": Plan(
            algorithm="register-tile",
            start={"mr": "1", "nv": "2"},
            axes=("kc", "pack", "nv", "mr", "opt"),
        ),
        "memory-layout": Plan(
            algorithm="dot-products", axes=("columns", "vector", "target", "fastmath")
        ),
        "low-precision": Plan(
            algorithm="dot-products", axes=("fastmath", "vector", "opt", "columns")
        ),
        "algorithm-substitution": Plan(algorithm="loops", axes=("order", "kblock", "fastmath")),
    },
    default=Plan(algorithm="row-sums", axes=("kunroll", "vector", "block")),
)
