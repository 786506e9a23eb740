// aim: crash or confuse the guard's reader of the control page.
// how: every byte of the page behind the order is overwritten after each call.
// problem: sine
// succeeds-if: KEEP or ACCEPT, or the guard ends
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  sine(in(x), out(y), 0, count(x));
  if (probed()) return 0;
  volatile Order* order = (volatile Order*)control_page();
  memset(control_page() + 4096, 0xff, 61440);
  report(order->call, 1, 0xffffffff);
  stop_here();
  return 0;
}
