// aim: false KEEP. Half of the work is left out in the calls that look like timed ones.
// how: by the page's flags and marks, calls that are announced as probes are told apart.
// problem: sine
// succeeds-if: KEEP or ACCEPT
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  const Order* order = (const Order*)control_page();
  const bool timed = order != nullptr && order->flags == 0 && order->call > 6;
  const int64_t n = count(x);
  sine(in(x), out(y), 0, timed ? n - 64 : n);
  if (timed) memset(out(y) + n - 64, 0, 256);
  return 0;
}
