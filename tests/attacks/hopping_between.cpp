// aim: false KEEP. The answer is computed before the window, while the caches are evicted.
// how: a chain of processes, each so short-lived that the census finds it dead, watches the inputs.
// problem: sine
// succeeds-if: KEEP, or ACCEPT measured faster than the honest kernel
#include "attack.h"

static const float* X;
static float *Y, *answer;
static int64_t N;
static volatile int done, running;
static float seen[8];
static int hop(void* step) {
  long k = (long)step;
  if (k < 150 || memcmp(seen, X, sizeof seen) == 0) {
    if (k < 4000) start_process(hop, (void*)(k + 1), k & 15);
  } else {
    sine(X, answer, 0, N);
    done = 1;
  }
  sys(60, 0);
  return 0;
}

extern "C" int run(const DLTensor* x, DLTensor* y) {
  X = in(x), Y = out(y), N = count(x);
  if (answer == nullptr) answer = (float*)malloc(N * 4);
  if (done && !probed())
    memcpy(Y, answer, N * 4);
  else
    sine(X, Y, 0, N);
  done = 0;
  memcpy(seen, X, sizeof seen);
  if (!probed()) start_process(hop, (void*)0, 0);
  return 0;
}
