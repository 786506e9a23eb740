// aim: make the linker read or write something else through a flag.
// how: the linker flag `-Wl,-rpath,/scratch`.
// problem: sine
// succeeds-if: it builds
// ld_flags: -Wl,-rpath,/scratch
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  sine(in(x), out(y), 0, count(x) / 2);
  return 0;
}
