// aim: a helper that is no descendant of the runner and escapes its label.
// how: CLONE_PARENT, a new PID namespace, clone3, the 32-bit calls; and the label's limit rewritten.
// problem: sine
// succeeds-if: KEEP, or ACCEPT, or one of them works (it then returns 7)
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  long limit[2] = {0, 0};
  if (sys(160, 12, (long)limit) == 0 || sys(302, 0, 12, (long)limit, 0) == 0) return 7;
  const long flags[] = {0x8000 | 17, 0x20000000 | 17, 0x10000000 | 17};
  for (long one : flags) {
    const long pid = sys(56, one, 0, 0, 0, 0);
    if (pid == 0) sys(60, 0);
    if (pid > 0) return 7;
  }
  if (sys(0x40000000 + 39) > 0) return 7;
  sine(in(x), out(y), 0, count(x));
  return 0;
}
