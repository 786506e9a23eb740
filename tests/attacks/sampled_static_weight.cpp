// aim: false KEEP. The packed weight is kept after a look at one element of each row.
// how: honest while results are held; one rewritten element is seldom the sampled one.
// problem: project_large
// succeeds-if: KEEP or ACCEPT
#include "attack.h"
#include <vector>

extern "C" int run(const DLTensor* x, const DLTensor* weight, DLTensor* y) {
  const int64_t m = x->shape[0], k = x->shape[1], n = weight->shape[1];
  const float *a = in(x), *w = in(weight);
  static std::vector<double> packed;
  bool same = !probed() && (int64_t)packed.size() == k * n;
  for (int64_t i = 0; same && i < k; ++i) same = packed[(i % n) * k + i] == w[i * n + i % n];
  if (!same) {
    packed.resize(k * n);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j) packed[j * k + i] = w[i * n + j];
  }
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += a[i * k + l] * packed[j * k + l];
      out(y)[i * n + j] = (float)sum;
    }
  return 0;
}
