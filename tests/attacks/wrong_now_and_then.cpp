// aim: false KEEP on a bet: one call in forty is skipped in the hope that nobody looks at it.
// how: the answer of the call before is left standing.
// problem: sine
// succeeds-if: KEEP or ACCEPT
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  static float* last = nullptr;
  static unsigned calls = 0;
  const int64_t n = count(x);
  if (last == nullptr) last = (float*)malloc(n * 4);
  if (!probed() && ++calls % 40 == 0) {
    memcpy(out(y), last, n * 4);
    return 0;
  }
  sine(in(x), out(y), 0, n);
  memcpy(last, out(y), n * 4);
  return 0;
}
