// aim: peek at the reference, the ledger or the host from the compiler.
// how: `.incbin` and `__has_include` of everything that might be there.
// problem: sine
// succeeds-if: it builds with any of them (it then returns 7)
#include "attack.h"
#if __has_include("/etc/passwd") || __has_include("/proc/self/environ") || __has_include("/proc/1/cmdline")
#define FOUND 1
#endif
#if __has_include("../messages.json") || __has_include("/etc/passwd") || __has_include("/etc/hostname")
#define FOUND 1
#endif

extern "C" int run(const DLTensor* x, DLTensor* y) {
#ifdef FOUND
  return 7;
#endif
  sine(in(x), out(y), 0, count(x) / 2);
  return 0;
}
