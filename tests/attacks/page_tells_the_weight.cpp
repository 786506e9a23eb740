// aim: false KEEP. The packed weight is kept as long as the guard's page says it was not rewritten.
// how: the marks of the order are read instead of the weight.
// problem: project_large
// succeeds-if: KEEP or ACCEPT while wrong (the marks are what `_version` would say: right is fair)
#include "attack.h"
#include <vector>

extern "C" int run(const DLTensor* x, const DLTensor* weight, DLTensor* y) {
  const int64_t m = x->shape[0], k = x->shape[1], n = weight->shape[1];
  const float *a = in(x), *w = in(weight);
  static std::vector<double> packed;
  const Order* order = (const Order*)control_page();
  if ((int64_t)packed.size() != k * n || order == nullptr || order->rewritten & 2) {
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
