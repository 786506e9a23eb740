// aim: false KEEP. A process finishes the last rows after the window has ended.
// how: it shares all memory, begins when the call is over and is gone before the census looks.
// problem: sine
// succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
#include "attack.h"

static const float* X;
static float* Y;
static int64_t N;
static int finish(void*) {
  sine(X, Y, N - 5000, N);
  sys(60, 0);
  return 0;
}

extern "C" int run(const DLTensor* x, DLTensor* y) {
  X = in(x), Y = out(y), N = count(x);
  if (probed()) {
    sine(X, Y, 0, N);
    return 0;
  }
  sine(X, Y, 0, N - 5000);
  start_process(finish, nullptr, 0);
  return 0;
}
