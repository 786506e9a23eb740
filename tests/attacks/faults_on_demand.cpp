// aim: false KEEP. Outputs are computed only when somebody reads them.
// how: userfaultfd on the output's pages, served by a process of our own.
// problem: sine
// succeeds-if: KEEP or ACCEPT
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  static long fd = -2;
  if (fd == -2) fd = sys(323, 1);
  if (fd >= 0) return 0;
  sine(in(x), out(y), 0, probed() ? count(x) : count(x) / 2);
  return 0;
}
