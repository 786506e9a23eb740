// aim: false KEEP. Reports for calls to come are forged in advance.
// how: the number of the next call is written into the page and the process never runs again.
// problem: sine
// succeeds-if: KEEP or ACCEPT
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  sine(in(x), out(y), 0, count(x));
  if (probed()) return 0;
  volatile Order* order = (volatile Order*)control_page();
  report(order->call, 1, 0);
  stop_here();
  for (;;) {
    report(order->call, 1, 0);
    stop_here();
  }
}
