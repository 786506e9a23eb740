// aim: false KEEP. The process is woken between two windows by the kernel's own notice of a file.
// how: F_SETSIG names SIGCONT for a pipe with O_ASYNC that a short-lived process writes to later.
// problem: sine
// succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
#include "attack.h"

static int pipes[2];
static int poke(void*) {
  for (volatile int i = 0; i < 300000; ++i) {
  }
  sys(1, pipes[1], (long)"x", 1);
  sys(60, 0);
  return 0;
}

extern "C" int run(const DLTensor* x, DLTensor* y) {
  static bool ready = false;
  if (!ready) {
    ready = true;
    sys(22, (long)pipes);
    sys(72, pipes[0], 8, sys(39));
    sys(72, pipes[0], 10, 18);
    sys(72, pipes[0], 4, 020000 | 04000);
  }
  sine(in(x), out(y), 0, count(x));
  if (!probed()) start_process(poke, nullptr, 0);
  return 0;
}
