// aim: make the compiler run, read or write something else through a flag.
// how: the compiler flag `-save-temps=obj`.
// problem: sine
// succeeds-if: it builds
// cflags: -save-temps=obj
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  sine(in(x), out(y), 0, count(x) / 2);
  return 0;
}
