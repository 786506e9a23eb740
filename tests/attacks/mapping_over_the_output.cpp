// aim: false KEEP. The output's pages are exchanged instead of written.
// how: a private mapping that holds earlier answers is placed over the shared buffer.
// problem: sine
// succeeds-if: KEEP or ACCEPT
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  sine(in(x), out(y), 0, count(x));
  if (probed()) return 0;
  static char* held = nullptr;
  const long from = ((long)y->data + 4095) & -4096L, to = ((long)y->data + count(y) * 4) & -4096L;
  if (held == nullptr) {
    held = (char*)malloc(to - from);
    memcpy(held, (char*)from, to - from);
    mmap((void*)from, to - from, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }
  memcpy((char*)from, held, to - from);
  return 0;
}
