// aim: false KEEP. The same kernel is timed without the runner's own code around it.
// how: once all workloads are known the call never returns: a loop of our own reads the orders from
//      the control page, forges the reports and stops the process.
// problem: sine_pair
// succeeds-if: KEEP: the kernel is the record's, only the guard's own overhead is skipped
#include "attack.h"

static const float* X[2];
static float* Y[2];
static int64_t N[2];

extern "C" int run(const DLTensor* x, DLTensor* y) {
  unsigned char* page = control_page();
  volatile Order* order = (volatile Order*)page;
  if (page == nullptr) {
    sine(in(x), out(y), 0, count(x));
    return 0;
  }
  const uint32_t w = order->workload & 1;
  X[w] = in(x), Y[w] = out(y), N[w] = count(x);
  sine(X[w], Y[w], 0, N[w]);
  if (X[0] == nullptr || X[1] == nullptr || probed()) return 0;
  for (;;) {
    report(order->call, 1, 0);
    stop_here();
    if (order->command == 2) sys(231, 0);
    if (order->command == 3) {
      memset(page + 32768, 0, 4);
      continue;
    }
    const uint32_t now = order->workload & 1;
    sine(X[now], Y[now], 0, N[now]);
  }
}
