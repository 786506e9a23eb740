// One block per token, which reads its logits twice: once for the maximum, once for the sum.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlpack/dlpack.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

template <typename T>
T* pointer(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

// The sum over all threads of a block, given to each of them.
__device__ float sum_of_block(float value) {
  __shared__ float shared[kThreads];
  __syncthreads();
  shared[threadIdx.x] = value;
  for (int half = kThreads / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  __syncthreads();
  return shared[0];
}

// The maximum over all threads of a block, given to each of them.
__device__ float max_of_block(float value) {
  __shared__ float shared[kThreads];
  __syncthreads();
  shared[threadIdx.x] = value;
  for (int half = kThreads / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
  }
  __syncthreads();
  return shared[0];
}

__global__ void entropy(const __nv_bfloat16* logits, const int64_t* targets, float* loss,
                        float* lse, int64_t vocabulary) {
  const __nv_bfloat16* row = logits + blockIdx.x * vocabulary;
  float top = -INFINITY;
  for (int64_t c = threadIdx.x; c < vocabulary; c += kThreads) {
    top = fmaxf(top, __bfloat162float(row[c]));
  }
  top = max_of_block(top);
  float sum = 0;
  for (int64_t c = threadIdx.x; c < vocabulary; c += kThreads) {
    sum += expf(__bfloat162float(row[c]) - top);
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) {
    const float whole = top + logf(sum);
    const int64_t target = targets[blockIdx.x];
    lse[blockIdx.x] = whole;
    loss[blockIdx.x] = target < 0 ? 0.0f : whole - __bfloat162float(row[target]);
  }
}

}  // namespace

extern "C" int run(const DLTensor* logits, const DLTensor* targets, DLTensor* loss, DLTensor* lse) {
  entropy<<<logits->shape[0], kThreads>>>(
      pointer<const __nv_bfloat16>(logits), pointer<const int64_t>(targets), pointer<float>(loss),
      pointer<float>(lse), logits->shape[1]);
  return cudaGetLastError();
}
