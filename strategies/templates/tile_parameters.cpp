// Tile sizes as template parameters: a new size is one more line in the table of instances.
#include <cstdint>

namespace {

template <int kRows, int kColumns>
void tile(const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
          int64_t k) {
  float sum[kRows][kColumns] = {};
  for (int64_t p = 0; p < k; ++p)
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kColumns; ++j) sum[r][j] += a[r * lda + p] * b[p * ldb + j];
  for (int r = 0; r < kRows; ++r)
    for (int j = 0; j < kColumns; ++j) c[r * ldc + j] = sum[r][j];
}

using Tile = void (*)(const float*, int64_t, const float*, int64_t, float*, int64_t, int64_t);
struct Size {
  int rows, columns;
  Tile run;
};
template <int kRows, int kColumns>
constexpr Size size() {
  return {kRows, kColumns, tile<kRows, kColumns>};
}
constexpr Size kSizes[] = {size<4, 16>(), size<4, 32>(), size<6, 16>(), size<8, 32>()};

}  // namespace

// c (m x n) = a * b with tile `choice`; the edges go through the 1 x 1 tile.
extern "C" void tiled_product(const float* a, const float* b, float* c, int64_t m, int64_t n,
                              int64_t k, int choice) {
  const Size& use = kSizes[choice];
  const int64_t whole_m = m - m % use.rows, whole_n = n - n % use.columns;
  for (int64_t j = 0; j < whole_n; j += use.columns)
    for (int64_t i = 0; i < whole_m; i += use.rows)
      use.run(a + i * k, k, b + j, n, c + i * n + j, n, k);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = i < whole_m ? whole_n : 0; j < n; ++j)
      tile<1, 1>(a + i * k, k, b + j, n, c + i * n + j, n, k);
}
