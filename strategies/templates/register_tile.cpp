// A register tile of a product on vector types: every loaded vector of B serves six rows of A.
#include <cstdint>
#include <cstring>

namespace {

typedef float v8 __attribute__((vector_size(32)));  // one AVX2 register; the compiler splits it
constexpr int kRows = 6, kVectors = 2;               // 12 accumulators + 2 of B + 1 of A < 16

inline v8 load(const float* p) {
  v8 x;
  std::memcpy(&x, p, sizeof x);  // unaligned is allowed
  return x;
}

}  // namespace

// c (6 x 16) += a (6 x k, leading dimension lda) * panel (k x 16, packed); ldc in floats.
extern "C" void tile_6x16(const float* a, int64_t lda, const float* panel, float* c, int64_t ldc,
                          int64_t k) {
  v8 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = load(c + r * ldc + 8 * v);
  for (int64_t p = 0; p < k; ++p) {
    const v8 b0 = load(panel + 16 * p), b1 = load(panel + 16 * p + 8);
    for (int r = 0; r < kRows; ++r) {  // constant bounds: unrolled, and `sum` stays in registers
      const v8 left = a[r * lda + p] - v8{};
      sum[r][0] += left * b0;
      sum[r][1] += left * b1;
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) std::memcpy(c + r * ldc + 8 * v, &sum[r][v], sizeof(v8));
}
