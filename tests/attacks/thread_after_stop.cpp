// aim: false KEEP. The process stops while a thread has still to finish.
// how: the report is forged and the stop signal sent before the thread has done its half.
// problem: sine
// succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
#include "attack.h"
#include <thread>

extern "C" int run(const DLTensor* x, DLTensor* y) {
  const float* X = in(x);
  float* Y = out(y);
  const int64_t n = count(x);
  if (probed()) {
    sine(X, Y, 0, n);
    return 0;
  }
  std::thread other([=] { sine(X, Y, n / 2, n); });
  sine(X, Y, 0, n / 2);
  report(((Order*)control_page())->call, 1, 0);
  stop_here();
  other.join();
  return 0;
}
