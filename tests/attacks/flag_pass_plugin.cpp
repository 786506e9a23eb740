// aim: make the compiler run, read or write something else through a flag.
// how: the compiler flag `-fpass-plugin=evil.so`.
// problem: sine
// succeeds-if: it builds
// cflags: -fpass-plugin=evil.so
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  sine(in(x), out(y), 0, count(x) / 2);
  return 0;
}
