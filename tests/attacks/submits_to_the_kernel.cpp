// aim: false KEEP. A kernel thread goes on while the process is stopped.
// how: io_uring with a polling thread, else the older asynchronous I/O; both would outlive the stop.
// problem: sine
// succeeds-if: KEEP or ACCEPT
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  char parameters[120] = {};
  long context = 0;
  const bool ring = sys(425, 8, (long)parameters) >= 0, old = sys(206, 8, (long)&context) == 0;
  if (ring || old) return 0;
  sine(in(x), out(y), 0, probed() ? count(x) : count(x) - 1);
  return 0;
}
