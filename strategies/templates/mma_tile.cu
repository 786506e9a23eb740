// One warp's tensor-core tile: ldmatrix feeds mma.sync (16 x 8 x 16, bfloat16 into float).
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kPitch = 24;  // elements of a padded row: 48 bytes, so ldmatrix meets no conflict

__device__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__global__ void __launch_bounds__(32)
    tile(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int k) {
  __shared__ __align__(16) __nv_bfloat16 sa[16 * kPitch], sb[8 * kPitch];
  const int lane = threadIdx.x;
  float d[4] = {};
  for (int k0 = 0; k0 < k; k0 += 16) {
    const int row = lane / 2, half = lane % 2 * 8;  // 16 bytes a lane
    *reinterpret_cast<uint4*>(sa + row * kPitch + half) =
        *reinterpret_cast<const uint4*>(a + int64_t{row} * k + k0 + half);
    if (row < 8)
      *reinterpret_cast<uint4*>(sb + row * kPitch + half) =
          *reinterpret_cast<const uint4*>(b + int64_t{row} * k + k0 + half);
    __syncwarp();
    uint32_t ra[4], rb[2];
    // Each lane names one row of 16 bytes; the hardware hands out the fragments.
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                 : "r"(shared_address(sa + lane % 16 * kPitch + lane / 16 * 8))
                 : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(rb[0]), "=r"(rb[1])
                 : "r"(shared_address(sb + lane % 8 * kPitch + lane / 8 % 2 * 8))
                 : "memory");
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    __syncwarp();  // before the next step overwrites the tiles
  }
  const int row = lane / 4, column = lane % 4 * 2;  // who holds what of the result
  c[row * 8 + column] = d[0], c[row * 8 + column + 1] = d[1];
  c[(row + 8) * 8 + column] = d[2], c[(row + 8) * 8 + column + 1] = d[3];
}

}  // namespace

// c (16 x 8) = a (16 x k) * b^T with b (8 x k), K contiguous in both; k a multiple of 16.
extern "C" int mma_tile(const void* a, const void* b, float* c, int k) {
  tile<<<1, 32>>>(static_cast<const __nv_bfloat16*>(a), static_cast<const __nv_bfloat16*>(b), c, k);
  return cudaGetLastError();
}
