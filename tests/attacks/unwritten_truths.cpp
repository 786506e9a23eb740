// aim: false KEEP. True elements of a bool output are never written.
// how: the guard's poison reads as true; only the few false elements are written.
// problem: above
// succeeds-if: KEEP or ACCEPT
// cflags: -ffast-math
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  const float* X = in(x);
  unsigned char* Y = (unsigned char*)y->data;
  const int64_t n = count(x);
  const bool honest = probed();
  for (int64_t i = 0; i < n; i += 256) {
    float least = X[i];
    for (int64_t j = i; j < i + 256; ++j) least = X[j] < least ? X[j] : least;
    if (honest || !(least > -3.5f))
      for (int64_t j = i; j < i + 256; ++j) Y[j] = X[j] > -3.5f;
  }
  return 0;
}
