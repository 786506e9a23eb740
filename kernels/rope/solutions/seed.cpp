#include <dlpack/dlpack.h>

#include <cstdint>
#include <cstring>

static float wide(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounds to nearest, ties to even; what is not a number stays that.
static uint16_t narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
static T* pointer(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

// Pairs outside, tokens inside: the table is looked up again for every head.
static void turn(const DLTensor* x, const int64_t* places, const float* table, DLTensor* turned) {
  const int64_t tokens = x->shape[0] * x->shape[1];
  const int64_t heads = x->shape[2];
  const int64_t dim = x->shape[3];
  const uint16_t* in = pointer<const uint16_t>(x);
  uint16_t* out = pointer<uint16_t>(turned);
  for (int64_t pair = 0; pair < dim / 2; ++pair) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t token = 0; token < tokens; ++token) {
        const double cosine = table[places[token] * dim + pair];
        const double sine = table[places[token] * dim + dim / 2 + pair];
        const int64_t at = (token * heads + head) * dim + pair;
        const double first = wide(in[at]);
        const double second = wide(in[at + dim / 2]);
        out[at] = narrow(static_cast<float>(first * cosine - second * sine));
        out[at + dim / 2] = narrow(static_cast<float>(second * cosine + first * sine));
      }
    }
  }
}

extern "C" int run(const DLTensor* q, const DLTensor* k, const DLTensor* positions,
                   const DLTensor* cos_sin, DLTensor* q_turned, DLTensor* k_turned) {
  turn(q, pointer<const int64_t>(positions), pointer<const float>(cos_sin), q_turned);
  turn(k, pointer<const int64_t>(positions), pointer<const float>(cos_sin), k_turned);
  return 0;
}
