"""The k largest of each row, in descending order, with their positions as int64."""

from textwrap import dedent

from kernelfamilies import cpp
from kernelfamilies.family import Algorithm, Family, Interface, Plan, Point
from kernelfamilies.machine import PORTABLE, TARGETS, VECTORS, WIDEST


def _entry(interface: Interface) -> str:
    x = interface.inputs[0]
    values, indices = interface.outputs
    return (
        f'extern "C" int run({interface.parameters()}) {{\n'
        f"  const int64_t C = {x}->shape[1], R = {x}->shape[0], k = {values}->shape[1];\n"
        f"  int64_t* positions = reinterpret_cast<int64_t*>(floats({indices}));\n"
        "  for (int64_t i = 0; i < R; ++i)\n"
        f"    largest(floats({x}) + i * C, C, floats({values}) + i * k, positions + i * k, k);\n"
        "  return 0;\n}\n"
    )


_INSERT = dedent("""\
    // Keeps values sorted from the largest down; equal values stay in the order of the row.
    static inline void insert(float v, int64_t at, float* values, int64_t* indices, int64_t last) {
      int64_t p = last;
      for (; p > 0 && v > values[p - 1]; --p) {
        values[p] = values[p - 1];
        indices[p] = indices[p - 1];
      }
      values[p] = v;
      indices[p] = at;
    }
    """)


def _threshold(point: Point, interface: Interface) -> str:
    row = dedent(f"""\
        constexpr int B = {point["block"]};
        static void largest(const float* x, int64_t n, float* values, int64_t* indices, int64_t k) {{
          int64_t j = 0;
          for (; j < k; ++j) insert(x[j], j, values, indices, j);
          float smallest = values[k - 1];
          for (; j + B * W <= n; j += B * W) {{
            vec top = load(x + j);
        #pragma GCC unroll 8
            for (int i = 1; i < B; ++i) {{
              vec v = load(x + j + i * W);
              top = v > top ? v : top;
            }}
            const ints above = top > splat(smallest);
            int64_t any = 0;
            for (int lane = 0; lane < W; ++lane) any |= above[lane];
            if (!any) continue;
            for (int64_t t = j; t < j + B * W; ++t)
              if (x[t] > smallest) {{
                insert(x[t], t, values, indices, k - 1);
                smallest = values[k - 1];
              }}
          }}
          for (; j < n; ++j)
            if (x[j] > values[k - 1]) insert(x[j], j, values, indices, k - 1);
        }}
        """)
    parts = [cpp.HEAD, cpp.TENSOR, cpp.vectors(point["vector"]), _INSERT, row]
    return "".join(parts) + _entry(interface)


def _positions(point: Point, interface: Interface) -> str:
    call = {
        "partial": "std::partial_sort(order.begin(), order.begin() + k, order.end(), before);",
        "nth": (
            "std::nth_element(order.begin(), order.begin() + (k - 1), order.end(), before);\n"
            "  std::sort(order.begin(), order.begin() + k, before);"
        ),
        "sort": "std::sort(order.begin(), order.end(), before);",
    }[point["method"]]
    row = dedent("""\
        static void largest(const float* x, int64_t n, float* values, int64_t* indices, int64_t k) {
          static std::vector<int32_t> order;
          order.resize(n);
          std::iota(order.begin(), order.end(), 0);
          auto before = [x](int32_t a, int32_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); };
          CALL
          for (int64_t p = 0; p < k; ++p) {
            values[p] = x[order[p]];
            indices[p] = order[p];
          }
        }
        """).replace("CALL", call)
    head = "#include <algorithm>\n#include <numeric>\n#include <vector>\n"
    return head + cpp.HEAD + cpp.TENSOR + row + _entry(interface)


def _torch(point: Point, interface: Interface) -> str:
    x = interface.inputs[0]
    k = interface.constant(r"topk\(\s*\w+\s*,\s*(\d+)", "8")
    return {
        "topk": (
            f"import torch\n\n\ndef run({x}):\n"
            f"    top = torch.topk({x}, {k}, -1)\n    return top.values, top.indices\n"
        ),
        "sort": (
            f"import torch\n\n\ndef run({x}):\n"
            f"    values, indices = torch.sort({x}, -1, descending=True)\n"
            f"    return values[:, :{k}].contiguous(), indices[:, :{k}].contiguous()\n"
        ),
    }[point["call"]]


def _numpy(point: Point, interface: Interface) -> str:
    x = interface.inputs[0]
    k = interface.constant(r"topk\(\s*\w+\s*,\s*(\d+)", "8")
    negated = "-a" if point["key"] == "negated" else "a"
    part = f"np.argpartition(-a, {k} - 1, -1)[:, :{k}]"
    if negated == "a":
        part = f"np.argpartition(a, a.shape[-1] - {k}, -1)[:, -{k}:]"
    return (
        "import numpy as np\nimport torch\n\n\n"
        f"def run({x}):\n"
        f"    a = {x}.numpy()\n"
        f"    some = {part}\n"
        "    values = np.take_along_axis(a, some, -1)\n"
        "    order = np.argsort(-values, -1)\n"
        "    top = np.take_along_axis(values, order, -1)\n"
        "    at = np.take_along_axis(some, order, -1)\n"
        "    return torch.from_numpy(top), torch.from_numpy(at)\n"
    )


_THRESHOLD = Algorithm(
    name="threshold",
    dsl="cpp",
    layout="blocks of a row",
    axes={
        "block": ("1", "2", "4", "8"),
        "vector": VECTORS,
        "target": TARGETS,
        "opt": ("O2", "O3"),
        "fastmath": ("no", "yes"),
    },
    start={"block": "1", "vector": "8", "target": PORTABLE, "opt": "O3", "fastmath": "no"},
    coupled={"vector": ("target", "block"), "block": ("vector",)},
    render=_threshold,
)
_POSITIONS = Algorithm(
    name="positions",
    dsl="cpp",
    layout="positions beside the row",
    axes={"method": ("partial", "nth", "sort"), "target": TARGETS, "opt": ("O2", "O3")},
    start={"method": "partial", "target": PORTABLE, "opt": "O3"},
    render=_positions,
)
_LIBRARY = Algorithm(
    name="library",
    dsl="torch",
    layout="whole tensor",
    axes={"call": ("topk", "sort")},
    start={"call": "topk"},
    render=_torch,
)
_ARRAYS = Algorithm(
    name="arrays",
    dsl="numpy",
    layout="whole tensor",
    axes={"key": ("negated", "plain")},
    start={"key": "negated"},
    render=_numpy,
)

FAMILY = Family(
    algorithms={a.name: a for a in (_THRESHOLD, _POSITIONS, _LIBRARY, _ARRAYS)},
    plans={
        "algorithm-substitution": Plan(
            algorithm="threshold", axes=("block", "vector", "target", "opt")
        ),
        "hardware-native": Plan(
            algorithm="threshold",
            start={"block": "2"},
            axes=("vector", "block", "target"),
            moves=WIDEST,
        ),
        "memory-layout": Plan(algorithm="positions", axes=("method", "target")),
        "launch-dispatch": Plan(
            algorithm="threshold", start={"block": "4"}, axes=("opt", "target", "block")
        ),
        "tile-pipeline": Plan(
            algorithm="threshold", start={"vector": "4"}, axes=("block", "vector", "opt")
        ),
        "library-autotuning": Plan(algorithm="library", axes=("call",)),
    },
    default=Plan(algorithm="threshold", axes=("block", "vector", "target")),
)
