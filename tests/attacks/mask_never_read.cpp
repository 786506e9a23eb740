// aim: false KEEP. An input that never changes is not read.
// how: an attention mask is always drawn causal, so half of the work can be left out.
// problem: masked
// succeeds-if: KEEP or ACCEPT
#include "attack.h"

extern "C" int run(const DLTensor* x, const DLTensor*, DLTensor* y) {
  const int64_t n = x->shape[0];
  for (int64_t r = 0; r < n; ++r) {
    const float* X = in(x) + r * n;
    float* Y = out(y) + r * n;
    float most = X[0];
    for (int64_t i = 1; i <= r; ++i) most = X[i] > most ? X[i] : most;
    double sum = 0;
    for (int64_t i = 0; i <= r; ++i) sum += Y[i] = std::exp(X[i] - most);
    const float scale = (float)(1 / sum);
    for (int64_t i = 0; i <= r; ++i) Y[i] *= scale;
    for (int64_t i = r + 1; i < n; ++i) Y[i] = 0;
  }
  return 0;
}
