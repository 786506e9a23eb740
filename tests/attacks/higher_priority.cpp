// aim: false KEEP by a priority that the record does not have.
// how: setpriority, the realtime classes, I/O priority and a session (an autogroup) of its own.
// problem: sine
// succeeds-if: KEEP: the kernel is the record's
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  static bool asked = false;
  if (!asked) {
    asked = true;
    int priority = 50;
    sys(141, 0, 0, -20);
    sys(144, 0, 1, (long)&priority);
    sys(251, 1, 0, 1 << 13);
    sys(112);
  }
  sine(in(x), out(y), 0, count(x));
  return 0;
}
