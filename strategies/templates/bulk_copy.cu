// A ring of bulk copies (sm_90 and later): one thread asks, mbarriers say when a stage is full or free.
#include <cstdint>

namespace {

constexpr int kThreads = 128, kStages = 4, kTile = 2048;  // floats of a stage: 8 KiB

__device__ uint32_t at(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(at(barrier)), "r"(parity) : "memory");
}

__device__ void copy(float* to, const float* from, uint64_t* full) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(full)),
               "r"(kTile * 4) : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          at(to)), "l"(from), "r"(kTile * 4), "r"(at(full)) : "memory");
}

// partial[block] = sum of this block's tiles; tiles are dealt out round robin.
__global__ void __launch_bounds__(kThreads) sum(const float* x, float* partial, int64_t tiles) {
  __shared__ __align__(128) float ring[kStages][kTile];
  __shared__ uint64_t full[kStages], free_[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(full + s)));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(free_ + s)), "r"(kThreads));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // the copy engine sees them
  }
  __syncthreads();
  float total = 0.0f;
  int64_t asked = blockIdx.x;
  int64_t step = 0, ahead = 0;  // tiles used and asked for by this block
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++step) {
    if (threadIdx.x == 0)
      for (; asked < tiles && ahead < step + kStages; asked += gridDim.x, ++ahead) {
        const int s = static_cast<int>(ahead % kStages);
        // The first lap finds every stage free: parity 1 of a fresh barrier is the phase before.
        wait(free_ + s, static_cast<uint32_t>((ahead / kStages + 1) % 2));
        copy(ring[s], x + asked * kTile, full + s);
      }
    const int s = static_cast<int>(step % kStages);
    wait(full + s, static_cast<uint32_t>(step / kStages % 2));  // the parity flips every lap
    for (int i = threadIdx.x; i < kTile; i += kThreads) total += ring[s][i];
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(free_ + s)) : "memory");
  }
  for (int offset = 16; offset; offset >>= 1) total += __shfl_xor_sync(~0u, total, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(partial + blockIdx.x, total);
}

}  // namespace

// n a multiple of 2048, x 16-byte aligned; `partial` has `blocks` zeros.
extern "C" int bulk_copy(const float* x, float* partial, int64_t n, int blocks) {
  sum<<<blocks, kThreads>>>(x, partial, n / kTile);
  return cudaGetLastError();
}
