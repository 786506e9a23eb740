// Residual, RMS norm and weight in one trip: the row stays in registers between its two uses.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ float block_sum(float value) {  // shuffles, one exchange, one barrier
  __shared__ float parts[kWarps];
  for (int offset = 16; offset; offset >>= 1) value += __shfl_xor_sync(~0u, value, offset);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) sum += parts[i];  // broadcast reads: no second barrier
  return sum;
}

template <int kVectors>  // 16-byte vectors per thread; `held` needs constant indices
__global__ void __launch_bounds__(kThreads)
    add_norm(const uint4* x, const uint4* residual, const uint4* weight, uint4* sum_out, uint4* y,
             int vectors, float epsilon) {
  const int64_t row = int64_t{blockIdx.x} * vectors;
  float held[kVectors][8];
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int at = v * kThreads + threadIdx.x;
    if (at >= vectors) continue;
    uint4 a = x[row + at], b = residual[row + at], packed;
    const auto *pa = reinterpret_cast<__nv_bfloat16*>(&a), *pb = reinterpret_cast<__nv_bfloat16*>(&b);
    auto* out = reinterpret_cast<__nv_bfloat16*>(&packed);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      out[i] = __float2bfloat16(__bfloat162float(pa[i]) + __bfloat162float(pb[i]));
      held[v][i] = __bfloat162float(out[i]);  // what a reader of the stored sum would see
      squares += held[v][i] * held[v][i];
    }
    sum_out[row + at] = packed;
  }
  const float scale = rsqrtf(block_sum(squares) / (8.0f * vectors) + epsilon);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int at = v * kThreads + threadIdx.x;
    if (at >= vectors) continue;
    uint4 w = weight[at], packed;
    const auto* pw = reinterpret_cast<__nv_bfloat16*>(&w);
    auto* out = reinterpret_cast<__nv_bfloat16*>(&packed);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      out[i] = __float2bfloat16(held[v][i] * scale * __bfloat162float(pw[i]));
    y[row + at] = packed;
  }
}

}  // namespace

// bfloat16 rows, columns a multiple of 8 and at most 8192; everything 16-byte aligned.
extern "C" int add_norm_rows(const void* x, const void* residual, const void* weight, void* sum,
                             void* y, int64_t rows, int64_t columns, float epsilon) {
  const int vectors = static_cast<int>(columns / 8);
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(rows), kThreads>>>(
        static_cast<const uint4*>(x), static_cast<const uint4*>(residual),
        static_cast<const uint4*>(weight), static_cast<uint4*>(sum), static_cast<uint4*>(y), vectors,
        epsilon);
  };
  if (vectors <= kThreads) launch(add_norm<1>);
  else if (vectors <= 2 * kThreads) launch(add_norm<2>);
  else launch(add_norm<4>);
  return cudaGetLastError();
}
