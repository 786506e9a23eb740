// aim: false KEEP. All work is done after the window, by a process that the census never meets.
// how: for some milliseconds it forks itself on and ends, so that a process that was listed is dead
//      when it is looked at; then it computes while the other arm or the oracle runs.
// problem: sine
// succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
#include "attack.h"

static const float* X;
static float* Y;
static int64_t N;
static int left;
static int hop(void*) {
  if (--left > 0)
    start_process(hop, nullptr, left & 15);
  else
    sine(X, Y, 0, N);
  sys(60, 0);
  return 0;
}

extern "C" int run(const DLTensor* x, DLTensor* y) {
  X = in(x), Y = out(y), N = count(x);
  if (probed()) {
    sine(X, Y, 0, N);
    return 0;
  }
  left = 120;
  start_process(hop, nullptr, 0);
  return 0;
}
