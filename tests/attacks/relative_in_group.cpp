// aim: stop, slow or end whoever else is there.
// how: signals to everybody, to the parent and to neighbours' numbers, before and after each call.
// problem: sine
// succeeds-if: KEEP, or the record or the guard fails
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  const long me = sys(39);
  for (long pid = 1; pid < 40; ++pid)
    if (pid != me) sys(62, pid, 19), sys(234, pid, pid, 9), sys(200, pid, 9);
  sys(62, sys(110), 9);
  sine(in(x), out(y), 0, count(x));
  return 0;
}
