// One warpgroup's WGMMA tile (64 x 64, sm_90a): swizzled shared memory, descriptor, fences, wait.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kStep = 64;  // K per step: a row is then 128 bytes, as wide as the swizzle

// A K-major operand in 128-byte swizzle: 8 rows of 128 bytes make an atom of 1024 bytes.
__device__ uint64_t descriptor(const void* tile) {
  const uint64_t at = static_cast<uint64_t>(__cvta_generic_to_shared(tile));
  return (at >> 4 & 0x3fff)       // start, in units of 16 bytes
         | uint64_t{1} << 16      // leading offset: not used by this layout
         | uint64_t{64} << 32     // stride between atoms: 1024 / 16
         | uint64_t{1} << 62;     // 128-byte swizzle
}

// 64 rows x 64 of K: chunk c of row r (16 bytes) lies at chunk c ^ (r % 8) of its row.
__device__ void fill(__nv_bfloat16* tile, const __nv_bfloat16* from, int64_t k, int k0) {
  for (int i = threadIdx.x; i < 64 * 8; i += 128) {
    const int row = i / 8, chunk = i % 8;
    *reinterpret_cast<uint4*>(tile + row * kStep + (chunk ^ row % 8) * 8) =
        *reinterpret_cast<const uint4*>(from + row * k + k0 + chunk * 8);
  }
}

__device__ void multiply(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b));
}

__global__ void __launch_bounds__(128)
    tile(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int k) {
  __shared__ __align__(1024) __nv_bfloat16 sa[64 * kStep], sb[64 * kStep];  // atoms: 1024-aligned
  float d[32] = {};
  for (int k0 = 0; k0 < k; k0 += kStep) {
    fill(sa, a, k, k0);
    fill(sb, b, k, k0);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // ordinary stores -> WGMMA
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int i = 0; i < kStep / 16; ++i)  // 16 of K are 32 bytes, 2 units of the descriptor
      multiply(d, descriptor(sa) + 2 * i, descriptor(sb) + 2 * i);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");  // a pipeline waits later
    __syncthreads();
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < 32; ++i) {
    const int row = 16 * warp + lane / 4 + i % 4 / 2 * 8;
    c[row * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
  }
}

}  // namespace

// c (64 x 64) = a (64 x k) * b^T with b (64 x k), K contiguous in both; k a multiple of 64.
extern "C" int wgmma_tile(const void* a, const void* b, float* c, int k) {
  tile<<<1, 128>>>(static_cast<const __nv_bfloat16*>(a), static_cast<const __nv_bfloat16*>(b), c, k);
  return cudaGetLastError();
}
