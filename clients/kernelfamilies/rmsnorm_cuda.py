"""RMS normalisation in CUDA C++: a block or a warp for each row, vectors of several widths.

Some values are what agents also try and should not: a vector type that does not exist, rows taken
for aligned that are not, the same code with other comments or names.
"""

from textwrap import dedent

from kernelfamilies.family import Algorithm, Interface, Point
from kernelfamilies.rmsnorm_triton import NOTES, epsilon

_HEAD = dedent("""\
    #include <cuda_runtime.h>
    #include <dlpack/dlpack.h>

    #include <cstdint>

    namespace {

    template <typename T>
    T* pointer(const DLTensor* tensor) {
      return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
    }

    __device__ float over_warp(float sum) {
      for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
      return sum;
    }

    __device__ void add(float v, float& sum) { sum += v * v; }
    __device__ float scaled(float v, float factor, float w) { return v * factor * w; }

    """)
_REMARK = "// Every load of a warp is one transaction; sums never leave the registers.\n"
_TYPE = {"1": "float", "2": "float2", "4": "float4", "8": "float8"}
_KEPT = ("4", "8", "16", "32")
"""Vectors of a row that a thread keeps in registers at most, one kernel for each number."""

# SUM stands for a name, EPSILON for the constant under the root.
_BLOCK_KERNEL = dedent("""\
    // KEPT vectors stay in registers; 0: the row is read twice.
    template <typename Vector, int KEPT>
    __global__ void __launch_bounds__(THREADS) normalise(const float* x, const float* weight,
                                                         float* y, int64_t hidden) {
      __shared__ float partial[THREADS / 32];
      const int64_t vectors = hidden / (sizeof(Vector) / sizeof(float));
      const Vector* in = reinterpret_cast<const Vector*>(x + blockIdx.x * hidden);
      const Vector* scales = reinterpret_cast<const Vector*>(weight);
      Vector* out = reinterpret_cast<Vector*>(y + blockIdx.x * hidden);
      Vector held[KEPT ? KEPT : 1];
      float SUM = 0;
      if constexpr (KEPT > 0) {
    #pragma unroll
        for (int part = 0; part < KEPT; ++part) {
          const int64_t i = threadIdx.x + part * THREADS;
          if (i < vectors) add(held[part] = in[i], SUM);
        }
      } else {
        for (int64_t i = threadIdx.x; i < vectors; i += THREADS) add(in[i], SUM);
      }
      SUM = over_warp(SUM);
      if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = SUM;
      __syncthreads();
      SUM = 0;
      for (int i = 0; i < THREADS / 32; ++i) SUM += partial[i];
      const float factor = rsqrtf(SUM / hidden + EPSILONf);
      if constexpr (KEPT > 0) {
    #pragma unroll
        for (int part = 0; part < KEPT; ++part) {
          const int64_t i = threadIdx.x + part * THREADS;
          if (i < vectors) out[i] = scaled(held[part], factor, scales[i]);
        }
      } else {
        for (int64_t i = threadIdx.x; i < vectors; i += THREADS) {
          out[i] = scaled(in[i], factor, scales[i]);
        }
      }
    }

    """)
_WARP_KERNEL = dedent("""\
    template <typename Vector>
    __global__ void normalise(const float* x, const float* weight, float* y, int64_t rows,
                              int64_t hidden) {
      const int64_t row = static_cast<int64_t>(blockIdx.x) * ROWS + threadIdx.x / 32;
      if (row >= rows) return;
      const int64_t vectors = hidden / (sizeof(Vector) / sizeof(float));
      const Vector* in = reinterpret_cast<const Vector*>(x + row * hidden);
      const Vector* scales = reinterpret_cast<const Vector*>(weight);
      Vector* out = reinterpret_cast<Vector*>(y + row * hidden);
      float SUM = 0;
    #pragma unroll UNROLL
      for (int64_t i = threadIdx.x % 32; i < vectors; i += 32) add(in[i], SUM);
      const float factor = rsqrtf(over_warp(SUM) / hidden + EPSILONf);
    #pragma unroll UNROLL
      for (int64_t i = threadIdx.x % 32; i < vectors; i += 32) {
        out[i] = scaled(in[i], factor, scales[i]);
      }
    }

    """)


def _block(point: Point, interface: Interface) -> str:
    launch = "  normalise<Vector, KEPT><<<rows, THREADS>>>(x, weight, y, hidden);\n"
    if point["keep"] == "registers":
        each = [
            f"  if (vectors <= {kept} * THREADS) {{\n  {launch.replace('KEPT', kept)}"
            "    return cudaGetLastError();\n  }\n"
            for kept in _KEPT
        ]
        launch = (
            "  const int64_t vectors = hidden / (sizeof(Vector) / sizeof(float));\n"
            f"{''.join(each)}{launch}"
        )
    constants = f"constexpr int THREADS = {point['threads']};\n\n"
    return _whole(point, interface, constants + _BLOCK_KERNEL, launch.replace("KEPT", "0"))


def _warp(point: Point, interface: Interface) -> str:
    launch = (
        "  normalise<Vector><<<(rows + ROWS - 1) / ROWS, 32 * ROWS>>>(\n"
        "      x, weight, y, rows, hidden);\n"
    )
    constants = f"constexpr int ROWS = {point['rows']};\n\n"
    kernel = _WARP_KERNEL.replace("UNROLL", point["unroll"])
    return _whole(point, interface, constants + kernel, launch)


def _whole(point: Point, interface: Interface, kernel: str, launch: str) -> str:
    """Join arithmetic on vectors, a kernel, its launch by vector, and the entry."""
    width, vector = point["vector"], _TYPE[point["vector"]]
    x, weight, y = *interface.tensors[:2], interface.outputs[0]
    chosen = "normalise_by<float>(values, scales, results, rows, hidden)"
    if width != "1":
        wide = chosen.replace("float", vector)
        fits = "true" if point["align"] == "assumed" else f"hidden % {width} == 0"
        chosen = f"{fits} ? {wide}\n      : {chosen}"
    remark = _REMARK if point["notes"] == "many" else ""
    text = (
        f"{_HEAD}{_arithmetic(width)}{remark}{kernel}"
        "template <typename Vector>\n"
        "int normalise_by(const float* x, const float* weight, float* y, int64_t rows,\n"
        "                 int64_t hidden) {\n"
        f"{launch}"
        "  return cudaGetLastError();\n"
        "}\n\n"
        "}  // namespace\n\n"
        f'extern "C" int run({interface.parameters()}) {{\n'
        f"  const int64_t rows = {x}->shape[0], hidden = {x}->shape[1];\n"
        f"  const float* values = pointer<const float>({x});\n"
        f"  const float* scales = pointer<const float>({weight});\n"
        f"  float* results = pointer<float>({y});\n"
        f"  return {chosen};\n"
        "}\n"
    )
    text = text.replace("EPSILON", epsilon(interface))
    return text.replace("SUM", "total" if point["spelling"] == "plain" else "of_squares")


def _arithmetic(width: str) -> str:
    if width == "1":
        return ""
    vector, lanes = _TYPE[width], "xyzwabcd"[: int(width)]
    adds = " ".join(f"add(v.{lane}, sum);" for lane in lanes)
    products = "".join(f"  v.{lane} *= factor * w.{lane};\n" for lane in lanes)
    return (
        f"__device__ void add({vector} v, float& sum) {{ {adds} }}\n"
        f"__device__ {vector} scaled({vector} v, float factor, {vector} w) {{\n"
        f"{products}  return v;\n}}\n\n"
    )


_SHARED = {
    "vector": ("1", "2", "4", "8"),
    "align": ("checked", "assumed"),
    "spelling": ("plain", "other"),
    "notes": NOTES,
}
_START = {"vector": "4", "align": "checked", "spelling": "plain", "notes": "none"}


def _settled(point: Point) -> Point:
    """A scalar is always aligned."""
    return dict(point) | ({"align": "checked"} if point["vector"] == "1" else {})


BLOCK = Algorithm(
    name="cuda-block",
    dsl="cuda",
    layout="a block for each row",
    axes={
        "threads": ("64", "128", "256", "512", "1024"),
        "keep": ("reread", "registers"),
        **_SHARED,
    },
    start={"threads": "256", "keep": "reread", **_START},
    coupled={"threads": ("vector", "keep"), "vector": ("threads",), "keep": ("threads",)},
    render=_block,
    canonical=_settled,
)
WARP = Algorithm(
    name="cuda-warp",
    dsl="cuda",
    layout="a warp for each row",
    axes={"rows": ("1", "2", "4", "8", "16"), "unroll": ("1", "2", "4", "8"), **_SHARED},
    start={"rows": "4", "unroll": "4", **_START},
    coupled={"rows": ("vector",), "unroll": ("vector",), "vector": ("unroll",)},
    render=_warp,
    canonical=_settled,
)
