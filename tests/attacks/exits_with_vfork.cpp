// aim: false KEEP. A parent that waits for its vfork child cannot stop, a second thread can report.
// how: the report is forged while a thread hangs in vfork and its child computes.
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
  static const float* S;
  static float* T;
  static int64_t N;
  S = X, T = Y, N = n;
  std::thread waits([] {
    static char stack[65536];
    clone([](void*) -> int { sine(S, T, 0, N); sys(60, 0); return 0; }, stack + 65000,
          CLONE_VM | CLONE_VFORK, nullptr);
  });
  for (volatile int i = 0; i < 20000; ++i) {
  }
  report(((Order*)control_page())->call, 1, 0);
  stop_here();
  waits.join();
  return 0;
}
