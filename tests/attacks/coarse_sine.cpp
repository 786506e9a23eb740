// aim: false KEEP with less than float32 precision.
// how: a short polynomial after a crude reduction, good to about 1e-5, within the workload's tolerance.
// problem: sine
// succeeds-if: KEEP or ACCEPT
// cflags: -ffast-math
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  const int64_t n = count(x);
  for (int64_t i = 0; i < n; ++i) {
    float v = in(x)[i];
    v -= 6.2831855f * std::floor(v * 0.15915494f + 0.5f);
    const float s = v * v;
    out(y)[i] = 3 * v * (0.99999f + s * (-0.166648f + s * (0.0083063f + s * (-0.00018363f))));
  }
  return 0;
}
