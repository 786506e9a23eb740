// Common extents as template constants, the same code for every other one behind them.
#include <cstdint>

namespace {

template <int64_t kColumns>  // 0: known only when it runs
void sums(const float* x, float* y, int64_t rows, int64_t columns) {
  const int64_t n = kColumns ? kColumns : columns;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * n;
    float part[16] = {};
    int64_t j = 0;
    for (; j + 16 <= n; j += 16)
      for (int s = 0; s < 16; ++s) part[s] += in[j + s];
    float sum = 0.0f;
    for (; j < n; ++j) sum += in[j];  // gone where kColumns is a multiple of 16
    for (float one : part) sum += one;
    y[r] = sum;
  }
}

}  // namespace

// The shapes decide, and nothing else: never values, addresses or how often it was called.
extern "C" void row_sums(const float* x, float* y, int64_t rows, int64_t columns) {
  switch (columns) {
    case 64: return sums<64>(x, y, rows, columns);
    case 256: return sums<256>(x, y, rows, columns);
    case 4096: return sums<4096>(x, y, rows, columns);
    default: return sums<0>(x, y, rows, columns);
  }
}
