// Kernels of the window experiments. Built where they run: nvcc -arch=sm_90 -cubin.
#include <cuda_bf16.h>

extern "C" __global__ void empty() {}

// One block of 512 threads per row of 4096 bfloat16 values.
extern "C" __global__ void rms(const uint4* x, const uint4* weight, uint4* y) {
  __shared__ float partial[16];
  const size_t at = size_t(blockIdx.x) * 512 + threadIdx.x;
  uint4 raw = x[at];
  const __nv_bfloat162* pairs = reinterpret_cast<const __nv_bfloat162*>(&raw);
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    float2 v = __bfloat1622float2(pairs[i]);
    sum += v.x * v.x + v.y * v.y;
  }
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 16; ++i) sum += partial[i];
  const float scale = rsqrtf(sum / 4096 + 1e-6f);
  uint4 w = weight[threadIdx.x], out;
  const __nv_bfloat162* ws = reinterpret_cast<const __nv_bfloat162*>(&w);
  __nv_bfloat162* outs = reinterpret_cast<__nv_bfloat162*>(&out);
  for (int i = 0; i < 4; ++i) {
    float2 v = __bfloat1622float2(pairs[i]), u = __bfloat1622float2(ws[i]);
    outs[i] = __floats2bfloat162_rn(v.x * scale * u.x, v.y * scale * u.y);
  }
  y[at] = out;
}

__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// Stay on the device until *word is no longer `old`, or for `limit` nanoseconds.
extern "C" __global__ void spin_until(const volatile unsigned* word, unsigned old,
                                      unsigned long long limit) {
  const unsigned long long end = now() + limit;
  while (*word == old && now() < end) {
  }
}

// A chain of dependent multiply-adds: the same time on every multiprocessor.
extern "C" __global__ void chain(unsigned steps, float* sink) {
  float a = threadIdx.x, b = 0.999f;
  for (unsigned i = 0; i < steps; ++i) a = a * b + 1.0f;
  if (a == -1.0f) *sink = a;
}
