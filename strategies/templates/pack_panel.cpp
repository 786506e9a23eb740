// Packing a panel of B once, so that the inner loop of a product reads it in one straight line.
// Pays when many rows of A use the same panel; lda, ldb and ldc are leading dimensions in floats.
#include <cstdint>

namespace {

constexpr int64_t kColumns = 16;  // columns of a panel: two or four vectors
constexpr int64_t kDepth = 256;   // rows of a panel: with kColumns it must stay in the first level
alignas(64) float panel[kDepth * kColumns];  // static: a fresh buffer would fault in every page

void pack(const float* b, int64_t ldb, int64_t depth, int64_t columns) {
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t j = 0; j < kColumns; ++j)
      panel[k * kColumns + j] = j < columns ? b[k * ldb + j] : 0.0f;  // zeros: no tail inside
}

}  // namespace

// c (m x n) += a (m x k) * b (k x n), all row-major.
extern "C" void packed_product(const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                               int64_t ldc, int64_t m, int64_t n, int64_t k) {
  for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
    const int64_t columns = n - j0 < kColumns ? n - j0 : kColumns;
    for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
      const int64_t depth = k - k0 < kDepth ? k - k0 : kDepth;
      pack(b + k0 * ldb + j0, ldb, depth, columns);
      for (int64_t i = 0; i < m; ++i) {
        float sum[kColumns] = {};
        for (int64_t p = 0; p < depth; ++p) {
          const float left = a[i * lda + k0 + p];
          for (int64_t j = 0; j < kColumns; ++j) sum[j] += left * panel[p * kColumns + j];
        }
        for (int64_t j = 0; j < columns; ++j) c[i * ldc + j0 + j] += sum[j];
      }
    }
  }
}
