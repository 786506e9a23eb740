// aim: peek at the other arm's outputs or the warden's memory.
// how: ptrace, process_vm_readv, pidfd_getfd and kcmp on every process number.
// problem: sine
// succeeds-if: an answer other than refused (it then returns 7)
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  const long me = sys(39);
  char bytes[64];
  long local[2] = {(long)bytes, 64}, remote[2] = {0x400000, 64};
  for (long pid = 1; pid < 64; ++pid) {
    if (pid == me) continue;
    if (sys(101, 16, pid, 0, 0) == 0) return 7;
    if (sys(310, pid, (long)local, 1, (long)remote, 1, 0) > 0) return 7;
    const long fd = sys(434, pid, 0);
    if (fd >= 0 && sys(438, fd, 3, 0) >= 0) return 7;
    if (sys(312, pid, me, 0, 0, 0) >= 0) return 7;
  }
  sine(in(x), out(y), 0, count(x));
  return 0;
}
