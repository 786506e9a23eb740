// aim: false KEEP, as own_serving_loop, where the kernel is long beside the overhead.
// how: see there; what is skipped is a few tens of microseconds.
// problem: sine
// succeeds-if: KEEP: the kernel is the record's, only the guard's own overhead is skipped
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  unsigned char* page = control_page();
  volatile Order* order = (volatile Order*)page;
  sine(in(x), out(y), 0, count(x));
  if (page == nullptr || probed()) return 0;
  for (;;) {
    report(order->call, 1, 0);
    stop_here();
    if (order->command == 2) sys(231, 0);
    if (order->command == 3) {
      memset(page + 32768, 0, 4);
      continue;
    }
    sine(in(x), out(y), 0, count(x));
  }
}
