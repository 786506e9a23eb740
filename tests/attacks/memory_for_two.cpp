// aim: make the record fail, so that an unwelcome comparison does not count.
// how: as much memory as may be had is held at every stop, so that the next arm's call passes limits.
// problem: sine
// succeeds-if: the record fails (a refusal), KEEP
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  static bool held = false;
  sine(in(x), out(y), 0, count(x));
  if (probed() || held) return 0;
  held = true;
  for (int i = 0; i < 12; ++i) {
    void* place = mmap(nullptr, 256 << 20, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (place == MAP_FAILED) break;
  }
  return 0;
}
