// RMSNorm of float32 rows: one block for each row, which is read twice.
#include <cuda_runtime.h>
#include <dlpack/dlpack.h>

#include <cstdint>

namespace {

constexpr int kThreads = 512;

template <typename T>
T* pointer(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

__global__ void __launch_bounds__(kThreads) rms(const float* x, const float* weight, float* y,
                                                int64_t hidden) {
  __shared__ float partial[kThreads / 32];
  const float* in = x + blockIdx.x * hidden;
  float* out = y + blockIdx.x * hidden;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < hidden; i += kThreads) sum += in[i] * in[i];
  for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < kThreads / 32; ++i) sum += partial[i];
  const float scale = rsqrtf(sum / hidden + 1e-6f);
  for (int64_t i = threadIdx.x; i < hidden; i += kThreads) out[i] = in[i] * scale * weight[i];
}

}  // namespace

extern "C" int run(const DLTensor* x, const DLTensor* weight, DLTensor* y) {
  rms<<<x->shape[0], kThreads>>>(pointer<const float>(x), pointer<const float>(weight),
                                 pointer<float>(y), x->shape[1]);
  return cudaGetLastError();
}
