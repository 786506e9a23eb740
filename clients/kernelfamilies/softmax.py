"""Softmax over the last axis: y[i, j] = exp(x[i, j] - max(x[i])) / sum(exp(x[i] - max(x[i])))."""

from textwrap import dedent

from kernelfamilies import cpp
from kernelfamilies.family import Algorithm, Family, Interface, Plan, Point
from kernelfamilies.machine import PORTABLE, TARGETS, VECTORS, WIDEST


def _entry(interface: Interface) -> str:
    x, y = interface.inputs[0], interface.outputs[0]
    return (
        f'extern "C" int run({interface.parameters()}) {{\n'
        f"  const int64_t C = {x}->shape[{x}->ndim - 1];\n"
        "  int64_t R = 1;\n"
        f"  for (int i = 0; i + 1 < {x}->ndim; ++i) R *= {x}->shape[i];\n"
        f"  for (int64_t i = 0; i < R; ++i) softmax(floats({x}) + i * C, floats({y}) + i * C, C);\n"
        "  return 0;\n}\n"
    )


def _scale(point: Point) -> str:
    """Return the last sweep: multiply or divide a row in place."""
    if point["divide"] == "yes":
        return dedent("""\
            static inline void finish(float* y, float sum, int64_t n) {
              int64_t j = 0;
              for (; j + W <= n; j += W) store(y + j, load(y + j) / sum);
              for (; j < n; ++j) y[j] /= sum;
            }
            """)
    return dedent("""\
        static inline void finish(float* y, float sum, int64_t n) {
          const float factor = 1.0f / sum;
          int64_t j = 0;
          for (; j + W <= n; j += W) store(y + j, load(y + j) * factor);
          for (; j < n; ++j) y[j] *= factor;
        }
        """)


def _three_sweep(point: Point, interface: Interface) -> str:
    row = dedent(f"""\
        constexpr int A = {point["accumulators"]};
        static inline float highest(const float* x, int64_t n) {{
          float m = x[0];
          int64_t j = 0;
          if (n >= A * W) {{
            vec tops[A];
            for (int i = 0; i < A; ++i) tops[i] = load(x + i * W);
            for (j = A * W; j + A * W <= n; j += A * W)
        #pragma GCC unroll 8
              for (int i = 0; i < A; ++i) {{
                vec v = load(x + j + i * W);
                tops[i] = v > tops[i] ? v : tops[i];
              }}
            for (int i = 0; i < A; ++i)
              for (int lane = 0; lane < W; ++lane) m = tops[i][lane] > m ? tops[i][lane] : m;
          }}
          for (; j < n; ++j) m = x[j] > m ? x[j] : m;
          return m;
        }}
        static void softmax(const float* x, float* y, int64_t n) {{
          const float m = highest(x, n);
          // A long float sum loses digits: it is emptied into a double in time.
          constexpr int64_t PART = 2048;
          double sum = 0;
          int64_t j = 0;
          while (j + A * W <= n) {{
            const int64_t end = j + PART < n ? j + PART : n;
            vec sums[A] = {{}};
            for (; j + A * W <= end; j += A * W)
        #pragma GCC unroll 8
              for (int i = 0; i < A; ++i) {{
                vec e = exp_of(load(x + j + i * W) - m);
                sums[i] += e;
                store(y + j + i * W, e);
              }}
            for (int i = 0; i < A; ++i)
              for (int lane = 0; lane < W; ++lane) sum += sums[i][lane];
          }}
          for (; j < n; ++j) sum += y[j] = exp_one(x[j] - m);
          finish(y, float(sum), n);
        }}
        """)
    parts = [cpp.HEAD, cpp.TENSOR, cpp.vectors(point["vector"]), cpp.exponential(point["exp"])]
    return "".join([*parts, _scale(point), row, _entry(interface)])


def _online(point: Point, interface: Interface) -> str:
    row = dedent(f"""\
        constexpr int64_t CHUNK = {point["chunk"]};
        // Maximum and sum are corrected once per chunk, so that one exponential per element is left.
        static void softmax(const float* x, float* y, int64_t n) {{
          float top = -__FLT_MAX__;
          double sum = 0;
          for (int64_t from = 0; from < n; from += CHUNK) {{
            const int64_t to = from + CHUNK < n ? from + CHUNK : n;
            float here = x[from];
            int64_t j = from;
            if (to - from >= W) {{
              vec tops = load(x + j);
              for (j += W; j + W <= to; j += W) {{
                vec v = load(x + j);
                tops = v > tops ? v : tops;
              }}
              for (int lane = 0; lane < W; ++lane) here = tops[lane] > here ? tops[lane] : here;
            }}
            for (; j < to; ++j) here = x[j] > here ? x[j] : here;
            if (here > top) {{
              const float correction = from ? exp_one(top - here) : 0.0f;
              sum *= correction;
              for (j = 0; j < from; ++j) y[j] *= correction;
              top = here;
            }}
            vec sums = {{}};
            for (j = from; j + W <= to; j += W) {{
              vec e = exp_of(load(x + j) - top);
              sums += e;
              store(y + j, e);
            }}
            for (int lane = 0; lane < W; ++lane) sum += sums[lane];
            for (; j < to; ++j) sum += y[j] = exp_one(x[j] - top);
          }}
          finish(y, float(sum), n);
        }}
        """)
    parts = [cpp.HEAD, cpp.TENSOR, cpp.vectors(point["vector"]), cpp.exponential(point["exp"])]
    return "".join([*parts, _scale(point), row, _entry(interface)])


def _torch(point: Point, interface: Interface) -> str:
    x = interface.inputs[0]
    call = {
        "fused": f"    return torch.softmax({x}, dim=-1)\n",
        "inplace": (
            f"    y = {x} - {x}.amax(-1, keepdim=True)\n"
            "    y.exp_()\n"
            "    return y.div_(y.sum(-1, keepdim=True))\n"
        ),
        "logsumexp": f"    return ({x} - torch.logsumexp({x}, -1, keepdim=True)).exp_()\n",
    }[point["call"]]
    return f"import torch\n\n\ndef run({', '.join(interface.inputs)}):\n{call}"


def _numpy(point: Point, interface: Interface) -> str:
    x = interface.inputs[0]
    exponential = {
        "exp": "    np.exp(a, out=a)\n",
        "exp2": "    a *= np.float32(1.4426950408889634)\n    np.exp2(a, out=a)\n",
    }[point["base"]]
    return (
        "import numpy as np\nimport torch\n\n\n"
        f"def run({', '.join(interface.inputs)}):\n"
        f"    a = {x}.numpy()\n"
        "    a = a - a.max(-1, keepdims=True)\n"
        f"{exponential}"
        "    a /= a.sum(-1, keepdims=True)\n"
        "    return torch.from_numpy(a)\n"
    )


_EXPONENTIALS = ("libm", "poly6", "poly5", "poly3")
_THREE_SWEEP = Algorithm(
    name="three-sweep",
    dsl="cpp",
    layout="row by row",
    axes={
        "vector": VECTORS,
        "accumulators": ("1", "2", "4"),
        "exp": _EXPONENTIALS,
        "divide": ("yes", "no"),
        "target": TARGETS,
        "opt": ("O2", "O3"),
        "fastmath": ("no", "yes"),
    },
    start={
        "vector": "8",
        "accumulators": "1",
        "exp": "poly6",
        "divide": "yes",
        "target": PORTABLE,
        "opt": "O3",
        "fastmath": "no",
    },
    coupled={"vector": ("target", "accumulators"), "accumulators": ("vector",)},
    render=_three_sweep,
)
_ONLINE = Algorithm(
    name="online",
    dsl="cpp",
    layout="chunks of a row",
    axes={
        "vector": VECTORS,
        "chunk": ("64", "256", "1024", "4096"),
        "exp": _EXPONENTIALS,
        "divide": ("yes", "no"),
        "target": TARGETS,
        "opt": ("O2", "O3"),
        "fastmath": ("no", "yes"),
    },
    start={
        "vector": "8",
        "chunk": "1024",
        "exp": "poly6",
        "divide": "no",
        "target": PORTABLE,
        "opt": "O3",
        "fastmath": "no",
    },
    coupled={"vector": ("target",)},
    render=_online,
)
_LIBRARY = Algorithm(
    name="library",
    dsl="torch",
    layout="whole tensor",
    axes={"call": ("fused", "inplace", "logsumexp")},
    start={"call": "fused"},
    render=_torch,
)
_ARRAYS = Algorithm(
    name="arrays",
    dsl="numpy",
    layout="whole tensor",
    axes={"base": ("exp", "exp2")},
    start={"base": "exp"},
    render=_numpy,
)

FAMILY = Family(
    algorithms={a.name: a for a in (_THREE_SWEEP, _ONLINE, _LIBRARY, _ARRAYS)},
    plans={
        "operator-fusion": Plan(
            algorithm="online", axes=("chunk", "divide", "vector", "fastmath", "target")
        ),
        "hardware-native": Plan(
            algorithm="three-sweep",
            axes=("vector", "accumulators", "target", "divide"),
            moves=WIDEST,
        ),
        "low-precision": Plan(
            algorithm="three-sweep",
            start={"exp": "libm"},
            axes=("exp", "divide", "fastmath", "accumulators"),
            moves=(("exp", "poly6"), ("exp", "poly3")),
        ),
        "algorithm-substitution": Plan(algorithm="online", axes=("chunk", "exp", "divide")),
        "memory-layout": Plan(
            algorithm="online", start={"chunk": "256"}, axes=("chunk", "vector", "target")
        ),
        "tile-pipeline": Plan(
            algorithm="three-sweep",
            start={"accumulators": "2"},
            axes=("accumulators", "vector", "opt", "target"),
        ),
        "launch-dispatch": Plan(algorithm="three-sweep", axes=("opt", "target", "divide")),
        "library-autotuning": Plan(algorithm="library", axes=("call",)),
    },
    default=Plan(algorithm="three-sweep", axes=("accumulators", "exp", "divide", "vector")),
)
