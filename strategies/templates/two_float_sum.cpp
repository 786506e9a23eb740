// A sum kept as a pair of floats: nearly the accuracy of double at the width of float.
// Never with -ffast-math or -fassociative-math: they simplify the error term away.
#include <cstdint>

extern "C" float two_float_sum(const float* x, int64_t n) {
  constexpr int64_t kLanes = 16;  // independent lanes: two or four vectors
  float sum[kLanes] = {}, lost[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float value = x[i + lane];
      const float total = sum[lane] + value;
      const float back = total - sum[lane];  // what of `value` arrived
      lost[lane] += (sum[lane] - (total - back)) + (value - back);  // exact, whichever is larger
      sum[lane] = total;
    }
  }
  double all = 0.0;
  for (; i < n; ++i) all += x[i];
  for (int64_t lane = 0; lane < kLanes; ++lane) all += static_cast<double>(sum[lane]) + lost[lane];
  return static_cast<float>(all);
}
