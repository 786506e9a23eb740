// RMSNorm of float32 rows, for main.cpp.
#include <cuda_runtime.h>

#include <cstdint>

__global__ void __launch_bounds__(512)
    rms(const float* x, const float* weight, float* y, int64_t hidden) {
  __shared__ float partial[16];
  const float* in = x + blockIdx.x * hidden;
  float* out = y + blockIdx.x * hidden;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < hidden; i += 512) sum += in[i] * in[i];
  for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 16; ++i) sum += partial[i];
  const float scale = rsqrtf(sum / hidden + 1e-6f);
  for (int64_t i = threadIdx.x; i < hidden; i += 512) out[i] = in[i] * scale * weight[i];
}

void launch(const float* x, const float* weight, float* y, int64_t rows, int64_t hidden,
            cudaStream_t stream) {
  rms<<<rows, 512, 0, stream>>>(x, weight, y, hidden);
}
