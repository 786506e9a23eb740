// The k largest of a row by the bits of the key: four passes whatever k is, the row in shared memory.
#include <cstdint>

namespace {

constexpr int kThreads = 256, kMost = 8192;  // elements of a row that fit 32 KiB

__device__ uint32_t key_of(float x) {  // larger float, larger key; -0 below +0, NaN at the ends
  const uint32_t bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__global__ void __launch_bounds__(kThreads)
    select(const float* x, float* values, int* columns, int n, int k) {
  __shared__ uint32_t keys[kMost];
  __shared__ int count[256], place, equal, chosen, above;
  const float* row = x + int64_t{blockIdx.x} * n;
  for (int i = threadIdx.x; i < n; i += kThreads) keys[i] = key_of(row[i]);
  uint32_t prefix = 0, mask = 0;
  int wanted = k;  // rank of the threshold among the keys that share the prefix
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += kThreads) count[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += kThreads)
      if ((keys[i] & mask) == prefix) atomicAdd(count + (keys[i] >> shift & 255), 1);
    __syncthreads();
    if (threadIdx.x == 0) {  // 256 bins: short enough for one thread, a warp scan is the next step
      int seen = 0, bin = 255;
      for (; seen + count[bin] < wanted; --bin) seen += count[bin];
      chosen = bin, above = seen;
    }
    __syncthreads();
    prefix |= static_cast<uint32_t>(chosen) << shift;
    mask |= 255u << shift;
    wanted -= above;  // so many keys of the threshold's value are taken
  }
  if (threadIdx.x == 0) place = 0, equal = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += kThreads) {
    const bool tie = keys[i] == prefix;
    if (keys[i] > prefix || (tie && atomicAdd(&equal, 1) < wanted)) {
      const int at = atomicAdd(&place, 1);
      values[int64_t{blockIdx.x} * k + at] = row[i];
      columns[int64_t{blockIdx.x} * k + at] = i;
    }
  }
}

}  // namespace

// Unordered, and equal values are taken in no fixed order: sort the k survivors as the reference
// orders them, and choose among ties by column where it does. n <= 8192, k <= n.
extern "C" int radix_select(const float* x, float* values, int* columns, int64_t rows, int n, int k) {
  select<<<static_cast<unsigned>(rows), kThreads>>>(x, values, columns, n, k);
  return cudaGetLastError();
}
