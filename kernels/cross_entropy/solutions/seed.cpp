#include <dlpack/dlpack.h>

#include <cmath>
#include <cstdint>
#include <cstring>

static float wide(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T>
static T* pointer(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

// Two walks down the columns of the matrix: the maxima, then one double exponential for each element.
extern "C" int run(const DLTensor* logits, const DLTensor* targets, DLTensor* loss, DLTensor* lse) {
  const int64_t tokens = logits->shape[0];
  const int64_t vocabulary = logits->shape[1];
  const uint16_t* in = pointer<const uint16_t>(logits);
  const int64_t* target = pointer<const int64_t>(targets);
  float* losses = pointer<float>(loss);
  float* logs = pointer<float>(lse);
  double* top = new double[tokens];
  double* sums = new double[tokens]();
  for (int64_t t = 0; t < tokens; ++t) top[t] = -INFINITY;
  for (int64_t c = 0; c < vocabulary; ++c) {
    for (int64_t t = 0; t < tokens; ++t) top[t] = std::fmax(top[t], wide(in[t * vocabulary + c]));
  }
  for (int64_t c = 0; c < vocabulary; ++c) {
    for (int64_t t = 0; t < tokens; ++t) sums[t] += std::exp(wide(in[t * vocabulary + c]) - top[t]);
  }
  for (int64_t t = 0; t < tokens; ++t) {
    const double whole = top[t] + std::log(sums[t]);
    logs[t] = static_cast<float>(whole);
    const bool counts = target[t] != -100;
    losses[t] = counts ? static_cast<float>(whole - wide(in[t * vocabulary + target[t]])) : 0.0f;
  }
  delete[] top;
  delete[] sums;
  return 0;
}
