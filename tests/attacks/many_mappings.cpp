// aim: false KEEP by slowing the record's arm with deferred work of the kernel.
// how: thousands of files and mappings are dropped at the end of each untimed call.
// problem: sine
// succeeds-if: KEEP: the kernel is the record's
#include "attack.h"

extern "C" int run(const DLTensor* x, DLTensor* y) {
  sine(in(x), out(y), 0, count(x));
  const Order* order = (const Order*)control_page();
  if (order == nullptr || (order->flags & 2) == 0) return 0;
  for (int i = 0; i < 3000; ++i) {
    void* page = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(volatile char*)page = 1;
    munmap(page, 8192);
  }
  return 0;
}
