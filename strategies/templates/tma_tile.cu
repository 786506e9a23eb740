// A tensor map and one TMA tile (sm_90 and later): the driver's encoder, the box, the swizzle, the barrier.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kRows = 64, kColumns = 64;  // 64 values of 16 bits: as wide as the swizzle
constexpr uint32_t kBytes = kRows * kColumns * 2;

__device__ uint32_t at(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__global__ void __launch_bounds__(128)
    tile(const __grid_constant__ CUtensorMap map, __nv_bfloat16* y, int64_t rows, int64_t columns) {
  __shared__ __align__(1024) __nv_bfloat16 box[kRows * kColumns];  // the swizzle's period
  __shared__ uint64_t full;
  const int row = kRows * blockIdx.y, column = kColumns * blockIdx.x;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    // All bytes of the box arrive, also where it hangs over the edge: those are zeros.
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&full)),
                 "r"(kBytes) : "memory");
    asm volatile(  // coordinates in elements, the innermost first
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
        "%3}], [%4];" ::"r"(at(box)), "l"(&map), "r"(column), "r"(row), "r"(at(&full)) : "memory");
  }
  __syncthreads();  // nobody waits on a barrier that is not initialised
  asm volatile(
      "{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra again;\n}" ::"r"(at(&full)) : "memory");
  for (int i = threadIdx.x; i < kRows * kColumns; i += 128) {
    const int r = i / kColumns, c = i % kColumns;
    const int chunk = c / 8 ^ r % 8;  // 16-byte chunk c / 8 of row r lies there
    if (row + r < rows && column + c < columns)
      y[(row + r) * columns + column + c] = box[r * kColumns + chunk * 8 + c % 8];
  }
}

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode encoder() {  // once: the driver's library is not linked
  static const Encode found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult told;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                     &told);
    return reinterpret_cast<Encode>(function);
  }();
  return found;
}

}  // namespace

// y = x (rows x columns, bfloat16) through tiles; x 16-byte aligned, columns a multiple of 8.
extern "C" int tma_tile(const void* x, void* y, int64_t rows, int64_t columns) {
  CUtensorMap map;
  const cuuint64_t extents[] = {cuuint64_t(columns), cuuint64_t(rows)};
  const cuuint64_t strides[] = {cuuint64_t(columns) * 2};  // bytes; of all but the innermost
  const cuuint32_t box[] = {kColumns, kRows}, steps[] = {1, 1};
  if (encoder() == nullptr ||
      encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(x), extents, strides,
                box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>((columns + kColumns - 1) / kColumns),
                  static_cast<unsigned>((rows + kRows - 1) / kRows));
  tile<<<grid, 128>>>(map, static_cast<__nv_bfloat16*>(y), rows, columns);
  return cudaGetLastError();
}
