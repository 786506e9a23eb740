// Quantising rows to FP8 (E4M3) with one scale per 128 values, found and applied in one pass.
#include <cuda_fp8.h>

#include <cstdint>

namespace {

constexpr int kBlock = 128;  // values per scale: one warp, four values a lane
constexpr float kLargest = 448.0f;

__global__ void __launch_bounds__(256)
    quantise(const float4* x, __nv_fp8x4_e4m3* y, float* scales, int64_t blocks) {
  const int64_t block = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (block >= blocks) return;  // whole warps: the shuffles below stay full
  const int lane = threadIdx.x % 32;
  const float4 v = x[block * 32 + lane];
  float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
  for (int offset = 16; offset; offset >>= 1)
    most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
  const float scale = most > 0.0f ? most / kLargest : 1.0f;  // an all-zero block divides by one
  const float inverse = 1.0f / scale;
  y[block * 32 + lane] =
      __nv_fp8x4_e4m3(make_float4(v.x * inverse, v.y * inverse, v.z * inverse, v.w * inverse));
  if (lane == 0) scales[block] = scale;
}

}  // namespace

// x = y * scale; n a multiple of 128. In the product the scale multiplies a partial sum over the
// 128 values, in float, not the narrow values themselves.
extern "C" int block_scale(const float* x, void* y, float* scales, int64_t n) {
  const int64_t blocks = n / kBlock;
  quantise<<<static_cast<unsigned>((blocks + 7) / 8), 256>>>(
      reinterpret_cast<const float4*>(x), static_cast<__nv_fp8x4_e4m3*>(y), scales, blocks);
  return cudaGetLastError();
}
