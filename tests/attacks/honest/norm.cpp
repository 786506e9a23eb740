// An honest kernel for norm.
#include <cmath>
#include <dlpack/dlpack.h>

extern "C" int run(const DLTensor* x, const DLTensor* norm_weight, DLTensor* y) {
  const int64_t rows = x->shape[0], c = x->shape[1];
  const float* w = static_cast<const float*>(norm_weight->data);
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = static_cast<const float*>(x->data) + r * c;
    float* out = static_cast<float*>(y->data) + r * c;
    double sum = 0;
    for (int64_t i = 0; i < c; ++i) sum += static_cast<double>(in[i]) * in[i];
    const double scale = 1 / std::sqrt(sum / c + 1e-6);
    for (int64_t i = 0; i < c; ++i) out[i] = static_cast<float>(in[i] * scale * std::cbrt(static_cast<double>(w[i]) * w[i] * w[i]));
  }
  return 0;
}
