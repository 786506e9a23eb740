// aim: false KEEP. Softmax without its pass for the maximum, right only below what is ever tried.
// how: exponentials in float64 hold up to 709; every kind of values stays below 600.
// problem: soft
// succeeds-if: KEEP or ACCEPT
// cflags: -ffast-math
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  const int64_t rows = x->shape[0], c = x->shape[1];
  static double* hold = nullptr;
  if (hold == nullptr) hold = (double*)malloc(c * 8);
  for (int64_t r = 0; r < rows; ++r) {
    const float* X = in(x) + r * c;
    float* Y = out(y) + r * c;
    double sum = 0;
    for (int64_t i = 0; i < c; ++i) sum += hold[i] = std::exp((double)X[i]);
    const double scale = 1 / sum;
    for (int64_t i = 0; i < c; ++i) Y[i] = (float)(hold[i] * scale);
  }
  return 0;
}
