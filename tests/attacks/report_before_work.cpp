// aim: false KEEP. The call is reported as done at once and the work is left for after the stop.
// how: the report is forged, the process stops; it computes when it is woken for the next call.
// problem: sine
// succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  if (!probed()) {
    report(((Order*)control_page())->call, 1, 0);
    stop_here();
  }
  sine(in(x), out(y), 0, count(x));
  return 0;
}
