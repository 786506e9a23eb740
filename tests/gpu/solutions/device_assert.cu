// Fault: an assertion on the device fails.
#undef NDEBUG
#include <cassert>

#include <cuda_runtime.h>
#include <dlpack/dlpack.h>

__global__ void check(int value) { assert(value == 0); }

extern "C" int run(const DLTensor*, const DLTensor*, DLTensor*) {
  check<<<1, 1>>>(1);
  return 0;
}
