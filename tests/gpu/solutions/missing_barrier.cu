// Exploit: partial sums of other warps are read before they are there.
#include <cuda_runtime.h>
#include <dlpack/dlpack.h>

#include <cstdint>

__global__ void rms(const float* x, const float* weight, float* y, int64_t hidden) {
  __shared__ volatile float partial[16];
  const float* in = x + blockIdx.x * hidden;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < hidden; i += 512) sum += in[i] * in[i];
  for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  sum = 0;
  for (int i = 0; i < 16; ++i) sum += partial[i];
  const float scale = rsqrtf(sum / hidden + 1e-6f);
  for (int64_t i = threadIdx.x; i < hidden; i += 512)
    y[blockIdx.x * hidden + i] = in[i] * scale * weight[i];
}

extern "C" int run(const DLTensor* x, const DLTensor* weight, DLTensor* y) {
  rms<<<x->shape[0], 512>>>(static_cast<const float*>(x->data) + x->byte_offset / 4,
                            static_cast<const float*>(weight->data) + weight->byte_offset / 4,
                            static_cast<float*>(y->data) + y->byte_offset / 4, x->shape[1]);
  return cudaGetLastError();
}
