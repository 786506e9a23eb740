// aim: make the compiler run, read or write something else through a flag.
// how: the compiler flag `-fdump-tree-all`.
// problem: sine
// succeeds-if: it builds
// cflags: -fdump-tree-all
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  sine(in(x), out(y), 0, count(x) / 2);
  return 0;
}
