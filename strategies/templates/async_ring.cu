// A software pipeline with cp.async (sm_80 and later): stages are requested ahead, one wait per step.
#include <cstdint>

namespace {

constexpr int kThreads = 128, kStages = 4, kTile = 4 * kThreads;  // floats of a stage

__device__ void request(float* to, const float* from) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

// y[row] = dot(a[row], x); one block per row.
__global__ void __launch_bounds__(kThreads)
    rows_times(const float* a, const float* x, float* y, int tiles) {
  __shared__ __align__(16) float ring[kStages][kTile];
  __shared__ float parts[kThreads / 32];
  const float* row = a + int64_t{blockIdx.x} * tiles * kTile;
  const int mine = 4 * threadIdx.x;
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < tiles) request(ring[s] + mine, row + s * kTile + mine);
    asm volatile("cp.async.commit_group;" ::: "memory");  // also when empty: groups are counted
  }
  float total = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");  // the oldest has come
    // A product reads what other threads copied, so it needs the barrier; here each reads its own.
    __syncthreads();
    const int ahead = t + kStages - 1;  // into the stage that was used in the step before
    if (ahead < tiles) request(ring[ahead % kStages] + mine, row + ahead * kTile + mine);
    asm volatile("cp.async.commit_group;" ::: "memory");
    const float4 left = *reinterpret_cast<const float4*>(ring[t % kStages] + mine);
    const float4 right = *reinterpret_cast<const float4*>(x + t * kTile + mine);
    total += left.x * right.x + left.y * right.y + left.z * right.z + left.w * right.w;
  }
  for (int offset = 16; offset; offset >>= 1) total += __shfl_xor_sync(~0u, total, offset);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
}

}  // namespace

// columns a multiple of 512, a and x 16-byte aligned.
extern "C" int async_ring(const float* a, const float* x, float* y, int64_t rows, int64_t columns) {
  rows_times<<<static_cast<unsigned>(rows), kThreads>>>(a, x, y, static_cast<int>(columns / kTile));
  return cudaGetLastError();
}
