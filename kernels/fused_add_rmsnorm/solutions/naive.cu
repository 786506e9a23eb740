// One block per row: the sums are written, then read again twice.
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

__global__ void add_and_normalise(const __nv_bfloat16* x, const __nv_bfloat16* residual,
                                  const __nv_bfloat16* weight, __nv_bfloat16* y,
                                  __nv_bfloat16* total, int64_t hidden) {
  const int64_t row = blockIdx.x * hidden;
  float squares = 0;
  for (int64_t c = threadIdx.x; c < hidden; c += kThreads) {
    const float sum = __bfloat162float(x[row + c]) + __bfloat162float(residual[row + c]);
    total[row + c] = __float2bfloat16(sum);
    const float value = __bfloat162float(total[row + c]);
    squares += value * value;
  }
  const float mean = sum_of_block(squares) / hidden;
  for (int64_t c = threadIdx.x; c < hidden; c += kThreads) {
    const float value = __bfloat162float(total[row + c]) / sqrtf(mean + 1e-6f);
    y[row + c] = __float2bfloat16(value * __bfloat162float(weight[c]));
  }
}

}  // namespace

extern "C" int run(const DLTensor* x, const DLTensor* residual, const DLTensor* weight, DLTensor* y,
                   DLTensor* total) {
  using Half = __nv_bfloat16;
  add_and_normalise<<<x->shape[0], kThreads>>>(pointer<const Half>(x), pointer<const Half>(residual),
                                               pointer<const Half>(weight), pointer<Half>(y),
                                               pointer<Half>(total), x->shape[1]);
  return cudaGetLastError();
}
