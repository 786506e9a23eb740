// An honest kernel for project_large: the weight is packed anew in every call.
#include <dlpack/dlpack.h>
#include <vector>

extern "C" int run(const DLTensor* x, const DLTensor* weight, DLTensor* y) {
  const int64_t m = x->shape[0], k = x->shape[1], n = weight->shape[1];
  const float* a = static_cast<const float*>(x->data);
  const float* w = static_cast<const float*>(weight->data);
  float* out = static_cast<float*>(y->data);
  std::vector<double> packed(k * n);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) packed[j * k + i] = w[i * n + j];
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += a[i * k + l] * packed[j * k + l];
      out[i * n + j] = static_cast<float>(sum);
    }
  return 0;
}
