// RMSNorm of bfloat16 rows of 4096: one block per row, eight values per thread and load.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlpack/dlpack.h>

#include <cstdint>

namespace {

constexpr int kHidden = 4096;
constexpr int kThreads = kHidden / 8;

template <typename T>
T* pointer(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

union Eight {
  uint4 raw;
  __nv_bfloat162 pairs[4];
};

__global__ void __launch_bounds__(kThreads) rms(const uint4* x, const uint4* weight, uint4* y) {
  __shared__ float partial[kThreads / 32];
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  Eight in, scale_by, out;
  in.raw = x[at];
  scale_by.raw = weight[threadIdx.x];
  float2 values[4];
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    values[i] = __bfloat1622float2(in.pairs[i]);
    sum += values[i].x * values[i].x + values[i].y * values[i].y;
  }
  for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < kThreads / 32; ++i) sum += partial[i];
  const float scale = rsqrtf(sum / kHidden + 1e-5f);
  for (int i = 0; i < 4; ++i) {
    const float2 by = __bfloat1622float2(scale_by.pairs[i]);
    out.pairs[i] = __floats2bfloat162_rn(values[i].x * scale * by.x, values[i].y * scale * by.y);
  }
  y[at] = out.raw;
}

}  // namespace

extern "C" int run(const DLTensor* hidden_states, const DLTensor* weight, DLTensor* output) {
  rms<<<hidden_states->shape[0], kThreads>>>(pointer<const uint4>(hidden_states),
                                             pointer<const uint4>(weight), pointer<uint4>(output));
  return cudaGetLastError();
}
