// aim: false KEEP by slowing the record's arm.
// how: hundreds of kernel timers expire on the shared core while the other arm is being timed.
// problem: sine_long
// succeeds-if: KEEP: the kernel is the record's
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  static int fds[900];
  static int have = -1;
  if (have < 0) {
    have = 0;
    while (have < 900 && (fds[have] = (int)sys(283, 1, 0)) >= 0) ++have;
  }
  sine(in(x), out(y), 0, count(x));
  if (probed()) return 0;
  for (long i = 0; i < have; ++i) {
    long when[4] = {0, 0, 0, 4000000 + i * 14000};
    sys(286, fds[i], 0, (long)when, 0);
  }
  return 0;
}
