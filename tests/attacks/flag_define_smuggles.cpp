// aim: smuggle a second flag through one that is allowed.
// how: a definition whose value holds quotes, blanks and a response file's name.
// problem: sine
// succeeds-if: KEEP or ACCEPT, or the second flag takes effect (it then returns 7)
// cflags: -DVALUE=1' -DSMUGGLED ' @/etc/passwd " -DSMUGGLED "
// cflags: -flto
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
#ifdef SMUGGLED
  return 7;
#endif
  sine(in(x), out(y), 0, count(x) / 2);
  return 0;
}
