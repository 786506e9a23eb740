// One thread for each pair of each head; every one looks its angle up again.
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

__global__ void turn(const __nv_bfloat16* x, const int64_t* positions, const float* cos_sin,
                     __nv_bfloat16* turned, int64_t count, int64_t heads, int64_t dim) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= count) return;
  const int64_t half = dim / 2;
  const int64_t pair = index % half;
  const int64_t head = index / half;
  const float* row = cos_sin + positions[head / heads] * dim;
  const int64_t at = head * dim + pair;
  const float first = __bfloat162float(x[at]);
  const float second = __bfloat162float(x[at + half]);
  turned[at] = __float2bfloat16(first * row[pair] - second * row[half + pair]);
  turned[at + half] = __float2bfloat16(second * row[pair] + first * row[half + pair]);
}

void launch(const DLTensor* x, const DLTensor* positions, const DLTensor* cos_sin,
            DLTensor* turned) {
  const int64_t heads = x->shape[2], dim = x->shape[3];
  const int64_t count = x->shape[0] * x->shape[1] * heads * dim / 2;
  turn<<<(count + kThreads - 1) / kThreads, kThreads>>>(
      pointer<const __nv_bfloat16>(x), pointer<const int64_t>(positions),
      pointer<const float>(cos_sin), pointer<__nv_bfloat16>(turned), count, heads, dim);
}

}  // namespace

extern "C" int run(const DLTensor* q, const DLTensor* k, const DLTensor* positions,
                   const DLTensor* cos_sin, DLTensor* q_turned, DLTensor* k_turned) {
  launch(q, positions, cos_sin, q_turned);
  launch(k, positions, cos_sin, k_turned);
  return cudaGetLastError();
}
