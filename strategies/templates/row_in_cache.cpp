// Reduction and normalisation of one row after the other: the second sweep finds the row in cache.
#include <cmath>
#include <cstdint>

// y = x / sqrt(mean(x^2) + epsilon) * weight, by row; several sums hide the latency of the add.
extern "C" void rms_rows(const float* x, const float* weight, float* y, int64_t rows,
                         int64_t columns, float epsilon) {
  constexpr int64_t kSums = 32;  // four vectors of eight
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * columns;
    float* out = y + r * columns;
    float sums[kSums] = {};
    int64_t j = 0;
    for (; j + kSums <= columns; j += kSums)
      for (int64_t s = 0; s < kSums; ++s) sums[s] += in[j + s] * in[j + s];
    float sum = 0.0f;
    for (; j < columns; ++j) sum += in[j] * in[j];
    for (float one : sums) sum += one;  // the horizontal part stands after the loop
    const float scale = 1.0f / std::sqrt(sum / static_cast<float>(columns) + epsilon);
    for (j = 0; j < columns; ++j) out[j] = in[j] * scale * weight[j];
  }
}
