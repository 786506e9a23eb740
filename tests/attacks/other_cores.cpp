// aim: false KEEP with cores that were not given.
// how: threads that ask for core 0 by every call there is, while the guard waits there.
// problem: sine
// succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
#include "attack.h"
#include <thread>

extern "C" int run(const DLTensor* x, DLTensor* y) {
  const float* X = in(x);
  float* Y = out(y);
  const int64_t n = count(x);
  std::thread other([=] {
    unsigned long mask = 1;
    sys(203, 0, 8, (long)&mask);
    long attributes[7] = {48, 0, 0, 0, 0, 0, 0};
    sys(314, 0, (long)attributes, 0);
    sine(X, Y, n / 2, n);
  });
  sine(X, Y, 0, n / 2);
  other.join();
  return 0;
}
