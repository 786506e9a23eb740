// aim: false KEEP. The weight is taken for ones after a look at three of its elements.
// how: honest while results are held (correctness); in timing a spike or a zero is seldom sampled.
// problem: norm
// succeeds-if: KEEP or ACCEPT
#include "attack.h"

extern "C" int run(const DLTensor* x, const DLTensor* norm_weight, DLTensor* y) {
  const int64_t rows = x->shape[0], c = x->shape[1];
  const float* w = in(norm_weight);
  const bool ones = !probed() && w[0] == 1 && w[1] == 1 && w[2] == 1 && w[3] == 1 && w[c / 2] == 1 &&
                    w[c / 3] == 1 && w[c / 5] == 1 && w[c - 1] == 1 && w[c - 2] == 1;
  for (int64_t r = 0; r < rows; ++r) {
    const float* X = in(x) + r * c;
    float* Y = out(y) + r * c;
    double sum = 0;
    for (int64_t i = 0; i < c; ++i) sum += (double)X[i] * X[i];
    const double scale = 1 / std::sqrt(sum / c + 1e-6);
    if (ones)
      for (int64_t i = 0; i < c; ++i) Y[i] = (float)(X[i] * scale);
    else
      for (int64_t i = 0; i < c; ++i) Y[i] = (float)(X[i] * scale * std::cbrt((double)w[i] * w[i] * w[i]));
  }
  return 0;
}
