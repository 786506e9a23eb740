// aim: false KEEP. The process wakes itself between two windows and computes ahead.
// how: a POSIX timer sends it SIGCONT some milliseconds after its stop; it stops again when done.
// problem: sine
// succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
#include "attack.h"

struct Event {
  void* value;
  int number, notify;
  char pad[48];
};

extern "C" int run(const DLTensor* x, DLTensor* y) {
  static long timer = 0;
  static int id = 0;
  if (!timer) {
    Event event = {};
    event.number = 18;
    timer = sys(222, 1, (long)&event, (long)&id) == 0 ? 1 : -1;
  }
  sine(in(x), out(y), 0, count(x));
  if (probed() || timer < 0) return 0;
  long when[4] = {0, 0, 0, 3000000};
  sys(223, id, 0, (long)when, 0);
  report(((Order*)control_page())->call, 1, 0);
  stop_here();                                // woken by the timer, before the window
  sine(in(x), out(y), 0, count(x));
  stop_here();
  return 0;
}
