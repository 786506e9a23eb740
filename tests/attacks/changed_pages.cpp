// aim: false KEEP. The kernel of the system is asked which pages of an input have changed.
// how: soft-dirty bits of the process's page map say "none": the guard writes through its own.
// problem: project_large
// succeeds-if: KEEP or ACCEPT
#include "attack.h"
#include <fcntl.h>
#include <vector>

extern "C" int run(const DLTensor* x, const DLTensor* weight, DLTensor* y) {
  const int64_t m = x->shape[0], k = x->shape[1], n = weight->shape[1];
  const float *a = in(x), *w = in(weight);
  static std::vector<double> packed;
  uint64_t entry = ~0ull;
  const int fd = open("/proc/self/pagemap", O_RDONLY);
  if (fd >= 0) {
    if (pread(fd, &entry, 8, (long)w / 4096 * 8) != 8) entry = ~0ull;
    close(fd);
  }
  if ((int64_t)packed.size() != k * n || entry >> 55 & 1) {
    packed.resize(k * n);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j) packed[j * k + i] = w[i * n + j];
  }
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += a[i * k + l] * packed[j * k + l];
      out(y)[i * n + j] = (float)sum;
    }
  return 0;
}
