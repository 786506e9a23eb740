// A tile turned in shared memory: both sides coalesced, no bank conflict, no padding (XOR swizzle).
#include <cstdint>

namespace {

constexpr int kSide = 32;
constexpr int kRows = 8;  // rows of threads; each thread moves kSide / kRows elements

__global__ void __launch_bounds__(kSide* kRows)
    transpose(const float* x, float* y, int64_t rows, int64_t columns) {
  // Element (r, c) lies at [r][c ^ r]: a row and a column both touch 32 different banks.
  __shared__ float tile[kSide][kSide];
  const int64_t r0 = int64_t{blockIdx.y} * kSide, c0 = int64_t{blockIdx.x} * kSide;
  const int lane = threadIdx.x;
#pragma unroll
  for (int r = threadIdx.y; r < kSide; r += kRows)
    if (r0 + r < rows && c0 + lane < columns)
      tile[r][lane ^ r] = x[(r0 + r) * columns + c0 + lane];
  __syncthreads();
#pragma unroll
  for (int c = threadIdx.y; c < kSide; c += kRows)
    if (c0 + c < columns && r0 + lane < rows)
      y[(c0 + c) * rows + r0 + lane] = tile[lane][c ^ lane];
}

}  // namespace

// y (columns x rows) = x (rows x columns) transposed; grid.y holds at most 65535 tiles.
extern "C" int transpose_tile(const float* x, float* y, int64_t rows, int64_t columns) {
  const dim3 grid(static_cast<unsigned>((columns + kSide - 1) / kSide),
                  static_cast<unsigned>((rows + kSide - 1) / kSide));
  transpose<<<grid, dim3(kSide, kRows)>>>(x, y, rows, columns);
  return cudaGetLastError();
}
