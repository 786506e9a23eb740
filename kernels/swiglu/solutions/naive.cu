// One thread for each output, two bytes at a time.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlpack/dlpack.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

template <typename T>
T* pointer(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

__global__ void gated(const __nv_bfloat16* gate_up, __nv_bfloat16* y, int64_t count,
                      int64_t width) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= count) return;
  const int64_t token = at / width;
  const int64_t column = at % width;
  const float gate = __bfloat162float(gate_up[token * 2 * width + column]);
  const float up = __bfloat162float(gate_up[token * 2 * width + width + column]);
  y[at] = __float2bfloat16(gate / (1.0f + expf(-gate)) * up);
}

}  // namespace

extern "C" int run(const DLTensor* gate_up, DLTensor* y) {
  const int64_t width = y->shape[1];
  const int64_t count = y->shape[0] * width;
  gated<<<(count + kThreads - 1) / kThreads, kThreads>>>(
      pointer<const __nv_bfloat16>(gate_up), pointer<__nv_bfloat16>(y), count, width);
  return cudaGetLastError();
}
