// aim: make the guard judge other inputs than the kernel was given.
// how: MADV_REMOVE punches holes into the shared file, so that guard and runner both read zeros.
// problem: sine
// succeeds-if: KEEP or ACCEPT
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  if (!probed()) {
    const long from = ((long)x->data + 4095) & -4096L, to = ((long)x->data + count(x) * 4) & -4096L;
    sys(28, from, to - from, 9);
  }
  sine(in(x), out(y), 0, count(x));
  return 0;
}
