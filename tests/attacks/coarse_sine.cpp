// aim: false KEEP with less than float32 precision.
// how: nine terms of a series, off by 1e-5: forty units in the last place, just inside kappa scales.
// problem: sine
// succeeds-if: KEEP with errors beyond kappa times an honest one (within kappa it is allowed)
// cflags: -ffast-math
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  const int64_t n = count(x);
  for (int64_t i = 0; i < n; ++i) {
    const double v = in(x)[i];
    const double k = std::floor(v * 0.3183098861837907 + 0.5);
    const float r = (float)(v - 3.141592653589793 * k), s = r * r;
    const float sign = 1 - 2 * (float)(k - 2 * std::floor(k / 2));
    const float p = 1 + s * (-1 / 6.f + s * (1 / 120.f + s * (-1 / 5040.f + s / 362880.f)));
    out(y)[i] = 3 * sign * r * p;
  }
  return 0;
}
